"""A workspace with a store of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HARNESS_UNDO", "true")
    folder = tmp_path / "work"
    folder.mkdir()
    return folder
