"""Shards that are damaged or of another kind are refused."""

import json

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.data.shards import TokenShards

from .conftest import MakeShards


@pytest.mark.parametrize("name", ["tokens.bin", "sentences.bin"])
def test_a_changed_byte_is_found(make_shards: MakeShards, name: str) -> None:
    directory = make_shards([[5, 6], [7]]).directory
    path = directory / name
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    with pytest.raises(BertError, match=f"{name} does not match its checksum"):
        TokenShards.open(directory)


def test_a_truncated_file_is_found(make_shards: MakeShards) -> None:
    directory = make_shards([[5, 6], [7]]).directory
    path = directory / "tokens.bin"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(BertError, match="34 bytes instead of 36"):
        TokenShards.open(directory)


def test_a_missing_file_is_named(make_shards: MakeShards) -> None:
    directory = make_shards([[5, 6], [7]]).directory
    (directory / "documents.bin").unlink()
    with pytest.raises(BertError, match=r"documents\.bin is missing"):
        TokenShards.open(directory)


def test_another_version_is_refused(make_shards: MakeShards) -> None:
    path = make_shards([[5]]).directory / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 9}))
    with pytest.raises(BertError, match="version 9"):
        TokenShards.open(path.parent)


def test_offsets_are_the_sums_of_lengths(make_shards: MakeShards) -> None:
    shards = make_shards([[5, 6], [7]])
    assert shards.sentence_ends.tolist() == [0, 5, 11, 18]
    assert shards.document_ends.tolist() == [0, 2, 3]
    assert len(shards.tokens) == 18
