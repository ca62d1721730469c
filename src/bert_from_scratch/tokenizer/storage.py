"""A tokenizer on disk: the three files that Hugging Face keeps."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bert_from_scratch import atomic
from bert_from_scratch.config import read_json
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer.engine import (
    UNCASED,
    TextRules,
    build_engine,
    find_rules,
)
from bert_from_scratch.tokenizer.vocabulary import (
    CLS,
    MASK,
    PAD,
    SEP,
    UNK,
    check_vocabulary,
    read_vocabulary,
)

# Hugging Face 用一个天文数字表示“没有上限”
_NO_LIMIT = 10**9
_ROLES = {
    "pad_token": PAD,
    "unk_token": UNK,
    "cls_token": CLS,
    "sep_token": SEP,
    "mask_token": MASK,
}


def load(directory: Path) -> tuple[Tokenizer, int | None]:
    """Reads the engine and the longest sequence of a tokenizer directory.

    Raises:
        BertError: No tokenizer there, or not a WordPiece one, or two files
            that contradict each other.
    """
    directory = _find(directory)
    settings_path = directory / "tokenizer_config.json"
    settings = read_json(settings_path) if settings_path.is_file() else {}
    vocab_path, json_path = (
        directory / "vocab.txt",
        directory / "tokenizer.json",
    )
    tokens = read_vocabulary(vocab_path) if vocab_path.is_file() else None
    if json_path.is_file():
        engine = _load_json(json_path)
        _check_agreement(engine, tokens, directory)
    else:
        assert tokens is not None, "_find saw one of the two files"
        engine = build_engine(
            tokens,
            TextRules(
                lowercase=bool(settings.get("do_lower_case", True)),
                strip_accents=settings.get("strip_accents"),
                split_chinese=bool(
                    settings.get("tokenize_chinese_chars", True)
                ),
            ),
        )
    max_length = settings.get("model_max_length", 512)
    has_limit = isinstance(max_length, int) and max_length < _NO_LIMIT
    return engine, max_length if has_limit else None


def save(engine: Tokenizer, max_length: int | None, directory: Path) -> None:
    """Writes `vocab.txt`, `tokenizer.json`, `tokenizer_config.json`."""
    vocab = engine.get_vocab(with_added_tokens=False)
    tokens = sorted(vocab, key=vocab.__getitem__)
    with atomic.replace_files(directory) as scratch_dir:
        text = "".join(f"{token}\n" for token in tokens)
        (scratch_dir / "vocab.txt").write_bytes(text.encode())
        engine.save(str(scratch_dir / "tokenizer.json"))
        settings = json.dumps(_settings(engine, max_length), indent=2)
        atomic.write_text(
            scratch_dir / "tokenizer_config.json", settings + "\n"
        )


def _find(directory: Path) -> Path:
    for candidate in (directory, directory / "model"):
        for name in ("tokenizer.json", "vocab.txt"):
            if (candidate / name).is_file():
                return candidate
    if not directory.exists():
        raise BertError(f"There is no tokenizer directory {directory}.")
    raise BertError(
        f"{directory} holds no tokenizer: neither tokenizer.json nor vocab.txt."
    )


def _load_json(path: Path) -> Tokenizer:
    model = read_json(path).get("model")
    # 早期的文件不写类型；写了别的类型才拒绝
    kind = model.get("type", "WordPiece") if isinstance(model, dict) else model
    if kind != "WordPiece":
        raise BertError(f"{path} is a {kind} tokenizer; BERT needs WordPiece.")
    try:
        engine = Tokenizer.from_file(str(path))
    except Exception as error:
        raise BertError(f"{path} cannot be read: {error}.") from error
    # 有些检查点把截断与补齐写死在文件里；长度由调用者决定，这里一律清除
    engine.no_truncation()
    engine.no_padding()
    return engine


def _check_agreement(
    engine: Tokenizer, tokens: list[str] | None, directory: Path
) -> None:
    vocab = engine.get_vocab(with_added_tokens=False)
    check_vocabulary(list(vocab), str(directory / "tokenizer.json"))
    if tokens is None:
        return
    for number, token in enumerate(tokens):
        if vocab.get(token) != number:
            raise BertError(
                f"vocab.txt and tokenizer.json in {directory} disagree: "
                f"{token!r} is line {number + 1}, but id {vocab.get(token)}.",
                hint="they are of different vocabularies; remove the wrong one",
            )


def _settings(engine: Tokenizer, max_length: int | None) -> dict[str, Any]:
    rules = find_rules(engine) or UNCASED
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": rules.lowercase,
        "strip_accents": rules.strip_accents,
        "tokenize_chinese_chars": rules.split_chinese,
        "model_max_length": max_length or 10**30,
        **_ROLES,
    }
