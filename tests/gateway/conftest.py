"""What tests of gateways share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import small_agent
from gateway_place import KEY, Place
from harness.lab import LabServer


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("PATH", small_agent.install(tmp_path / "bin") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with LabServer() as lab:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", lab.url)
        yield Place(tmp_path, lab)
        assert not lab.faults
