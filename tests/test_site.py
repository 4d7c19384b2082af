"""The documentation site: every page is reachable, and what the site does not have is not linked."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

SITE = Path(__file__).parent.parent / "site"


@pytest.fixture(scope="module")
def site() -> Iterator[ModuleType]:
    sys.path.insert(0, str(SITE))
    try:
        yield import_module("build")
    finally:
        sys.path.remove(str(SITE))
        for name in ("build", "api_page"):
            sys.modules.pop(name, None)


def test_every_page_is_in_the_navigation(site: ModuleType) -> None:
    pages = dict(site._pages())
    assert set(re.findall(r'= "([\w-]+\.md)"', site._navigation(pages))) == set(pages)


def test_links_lead_to_pages_of_the_site(site: ModuleType) -> None:
    pages = dict(site._pages())
    for name, text in pages.items():
        outside_of_code = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        for _, target in site.LINK.findall(outside_of_code):
            place = target.partition("#")[0]
            assert not place or "://" in place or place.startswith("mailto:") or place in pages, (
                name,
                target,
            )


def test_anchors_are_spelled_alike_by_the_site_and_by_whatever_shows_a_repository(site: ModuleType) -> None:
    """They differ in several hyphens in a row, as of a heading with an `--option`: there, and not here."""
    targets = [target for text in dict(site._pages()).values() for _, target in site.LINK.findall(text)]
    assert [target for target in targets if "--" in target.partition("#")[2] and "://" not in target] == []


def test_what_python_programs_import_is_described(site: ModuleType) -> None:
    import harness

    page = dict(site._pages())["api.md"]
    assert [name for name in harness.__all__ if f"## {name}\n" not in page] == []


def test_the_list_for_models_leads_to_pages_of_the_site(site: ModuleType, tmp_path: Path) -> None:
    pages = dict(site._pages())
    site._write_for_models(tmp_path, pages)
    text = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    places = re.findall(r"^- \[.+?\]\((.+?)/\)", text, re.MULTILINE)
    assert sorted("." if name == "index.md" else name.removesuffix(".md") for name in pages) == sorted(places)
    assert "- [Hosting](hosting/): as a service, behind a proxy" in text
    assert "\n## I host it\n" in text


def test_a_page_that_fetches_from_another_host_is_refused(site: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text('<link rel="canonical" href="https://x.example/"><a href="https://x.example/">x</a>')
    assert site._refuse_foreign_hosts(tmp_path) == 0
    page.write_text('<script src="https://x.example/a.js"></script>')
    assert site._refuse_foreign_hosts(tmp_path) == 1
