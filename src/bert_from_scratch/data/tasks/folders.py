"""Folders of texts, as IMDb comes: the sub-folder is the label."""

from pathlib import Path

from bert_from_scratch.data.tasks.examples import TextExample
from bert_from_scratch.data.tasks.files import read_text
from bert_from_scratch.errors import BertError

# IMDb 里没有标签的评论放在这个子目录
UNLABELLED_FOLDER = "unsup"


def read_folder(path: Path) -> list[TextExample]:
    """Reads one text a file, in a fixed order.

    Args:
        path: A folder with one sub-folder a label, and in it one .txt file a
            text. A sub-folder "unsup" is left out.

    Raises:
        BertError: There are no such texts, or one is empty.
    """
    if not path.is_dir():
        raise BertError(f"There is no folder {path}.")
    folders = sorted(p for p in path.iterdir() if p.is_dir())
    # 排序：目录的遍历次序因系统而异，而训练必须可重复
    examples = [
        TextExample(
            text=read_text(file).rstrip("\r\n"),
            labels=(folder.name,),
            place=str(file),
        )
        for folder in folders
        if folder.name != UNLABELLED_FOLDER
        for file in sorted(folder.glob("*.txt"))
    ]
    if not examples:
        raise BertError(
            f"The folder {path} has no sub-folders with .txt files.",
            hint="make one sub-folder a label, and in it one .txt file a text",
        )
    return examples
