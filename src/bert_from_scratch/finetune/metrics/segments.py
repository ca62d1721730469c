"""How CMRC 2018's script cuts an answer: characters, and words between them."""

import re

# 官方脚本不计分的标点；其余标点（如引号、括号）照常计分
_IGNORED = str.maketrans(
    "", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
)

_CHINESE = re.compile("([\u4e00-\u9fa5])")

# 英文部分照 NLTK 的宾州树库规则：标点单列，缩略语尾分开，词尾句点只在末尾分开
_MARK = r"""(?:
    \.{2,}
    | [;@#$%&?!()\[\]{}<>"«»‘„‒–—―]
    | ,(?!\d)
    | (?<!\.)\.(?=[\])}>"'»\s]*$)
    | \b(?:can(?=not\b)|(?:gon|wan)(?=na\b)|got(?=ta\b)|(?:gim|lem)(?=me\b))
    | n't(?!\w)
    | (?<=[^\s'])'(?:s|m|d|ll|re|ve)(?!\w)
    | (?<!\w)' | '(?!\w)
)"""
_WORD_OR_MARK = re.compile(rf"{_MARK} | (?:(?!{_MARK})\S)+", re.VERBOSE)


def remove_punctuation(text: str) -> str:
    """Lowers a text and takes out what the script does not count."""
    return text.lower().strip().translate(_IGNORED)


def cut_chinese(text: str) -> list[str]:
    """Cuts a text into Chinese characters and words of other scripts.

    The words between the characters are cut like NLTK's, but for the
    division into sentences: its full stops count only at the end.
    """
    parts: list[str] = []
    for piece in _CHINESE.split(remove_punctuation(text)):
        if _CHINESE.fullmatch(piece):
            parts.append(piece)
        else:
            parts += _cut_words(piece)
    return parts


def _cut_words(text: str) -> list[str]:
    return [
        _directed(match, text) if match[0] == '"' else match[0]
        for match in _WORD_OR_MARK.finditer(text)
    ]


def _directed(quote: re.Match[str], text: str) -> str:
    """Tells an opening quotation mark from a closing one."""
    # 左右引号是两种记号：片段开头、空格或左括号之后为左，其余为右
    before = text[: quote.start()]
    is_opening = before in ("", '"') or before[-1] in " ([{<"
    return "``" if is_opening else "''"
