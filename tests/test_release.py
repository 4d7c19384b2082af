"""What a release has besides the package: a manual page, completions, and the list of its parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from harness.cli import parser

DEPLOY = Path(__file__).parent.parent / "deploy"


@pytest.fixture(scope="module")
def release() -> Iterator[ModuleType]:
    sys.path.insert(0, str(DEPLOY))
    try:
        yield import_module("release")
    finally:
        sys.path.remove(str(DEPLOY))
        sys.modules.pop("release", None)


def test_the_manual_page_has_every_command(release: ModuleType) -> None:
    page = release._manual("2026-01-02")
    assert [
        name for name in parser.names() if f".B harness {name.replace('-', chr(92) + '-')}\n" not in page
    ] == []


def test_text_of_the_manual_page_is_only_text(release: ModuleType) -> None:
    assert release._roff(".TH evil\n'br a\\b -c") == "\\&.TH evil\n\\&'br a\\eb \\-c"


def test_the_list_of_parts_has_python_packages_and_those_of_the_page(release: ModuleType) -> None:
    parts = release._parts()
    names = {component["name"]: component for component in parts["components"]}
    assert {"msgspec", "hyperscan", "react"} <= set(names)
    assert names["react"]["purl"].startswith("pkg:npm/react@")
    assert names["msgspec"]["licenses"] != []


def test_the_image_has_what_the_package_is_built_from() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "COPY deploy/build_hook.py" in text
    for name in ("pyproject.toml", "README.md", "LICENSE", "src"):
        assert name in text
