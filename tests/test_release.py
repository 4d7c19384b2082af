"""What a release has besides the package: a manual page, completions, and the list of its parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.cli import parser
from source_tree import ROOT

DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def release() -> Iterator[ModuleType]:
    yield from _module("release")


@pytest.fixture(scope="module")
def hooks() -> Iterator[ModuleType]:
    yield from _module("build_hook")


def _module(name: str) -> Iterator[ModuleType]:
    sys.path.insert(0, str(DEPLOY))
    try:
        yield import_module(name)
    finally:
        sys.path.remove(str(DEPLOY))
        sys.modules.pop(name, None)


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
    here = {distribution.name.lower() for distribution in distributions()}
    assert [name for name, part in names.items() if name in here and not part["licenses"]] == []
    assert not {"pywin32", "colorama"} & set(names), "Harness does not run on Windows"


def test_the_image_has_what_the_package_is_built_from() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "COPY deploy/build_hook.py" in text
    for name in ("pyproject.toml", "README.md", "LICENSE", "src"):
        assert name in text


def test_a_registry_shows_links_that_lead_into_the_repository(hooks: ModuleType) -> None:
    text = hooks.with_whole_links(
        (ROOT / "README.md").read_text(encoding="utf-8"), "https://forge.example/o/h"
    )
    assert "](https://forge.example/o/h/blob/HEAD/docs/hosting.md)" in text
    assert "](https://forge.example/o/h/raw/HEAD/docs/demo.svg)" in text
    assert [target for _, _, target in hooks.LINK.findall(text)] == []
    assert hooks.with_whole_links("[a](#b) [c](https://d)", "x") == "[a](#b) [c](https://d)"


def test_the_address_of_the_repository_is_given_or_that_of_the_source_package(
    hooks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("[a](b.md)")

    def described() -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        hooks.ReleaseAddresses(str(tmp_path), {}).update(metadata)
        return metadata

    monkeypatch.delenv(hooks.REPOSITORY, raising=False)
    assert (described()["readme"]["text"], "urls" in described()) == ("[a](b.md)", False)
    (tmp_path / "PKG-INFO").write_text("Name: h\nProject-URL: Source, https://one.example/o/h\n")
    assert described()["urls"]["Issues"] == "https://one.example/o/h/issues"
    monkeypatch.setenv(hooks.REPOSITORY, "https://two.example/o/h/")
    assert described()["readme"]["text"] == "[a](https://two.example/o/h/blob/HEAD/b.md)"
