"""What a hint tells to install comes from where Harness itself came, into the environment that runs."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

from harness.errors import how_to_install


class _Installed:
    def __init__(self, origin: object) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        return None if self._origin is None else json.dumps(self._origin)


@pytest.mark.parametrize(
    ("is_editable", "end"), [(True, "-e '{folder}[tui]'"), (False, "install '{folder}[tui]'")]
)
def test_a_clone_is_installed_again_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_editable: bool, end: str
) -> None:
    folder = tmp_path / "a clöne"
    folder.mkdir()
    origin = {"url": folder.as_uri(), "dir_info": {"editable": is_editable}}
    monkeypatch.setattr(metadata, "distribution", lambda name: _Installed(origin))
    assert how_to_install("tui").endswith(end.format(folder=folder))


@pytest.mark.parametrize(
    "origin", [None, {"url": "file:///gone", "dir_info": {}}, {"url": "https://example.com/x.whl"}]
)
def test_what_came_from_an_index_comes_from_there_again(
    monkeypatch: pytest.MonkeyPatch, origin: object
) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: _Installed(origin))
    assert how_to_install("tui").endswith("install 'harness-agents[tui]'")
    assert sys.executable in how_to_install("tui")
