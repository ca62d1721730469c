"""Compiled code on disk is not used again once our operators change."""

from pathlib import Path

import pytest
import torch.compiler.config as settings
from torch import nn

from bert_from_scratch.train import compiling
from bert_from_scratch.train.compiling import compile_model, fingerprint


def test_a_changed_file_changes_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("factor = 1\n")
    before = fingerprint([tmp_path])
    assert fingerprint([tmp_path]) == before
    (tmp_path / "a.py").write_text("factor = 2\n")
    assert fingerprint([tmp_path]) != before


def test_all_rooms_with_operators_are_looked_at() -> None:
    found = {
        path.parent
        for path in compiling.PACKAGE.rglob("*.py")
        if "@torch.library.custom_op" in path.read_text()
    }
    assert found == set(compiling.ROOMS)


def test_the_cache_is_marked_once_beside_the_users_own_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "cache_key_tag", "mine")
    for _ in range(2):
        compile_model(nn.Linear(1, 1), is_dynamic=False)
    assert settings.cache_key_tag == "mine" + fingerprint(compiling.ROOMS)
