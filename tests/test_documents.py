"""What the documents say of the code is true: places exist, sections that are linked exist, programs type-check."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from source_tree import PACKAGE, ROOT, expect_none

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "benchmarks/README.md",
    ROOT / "examples/README.md",
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|md|toml))?)`")
"""A file or a folder with a slash at its end; `<name>` stands for something that does not exist yet."""
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
WITH_A_TEST_OF_ITS_OWN = tuple(page.name for page in (ROOT / "docs").glob("harness*.md"))


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_documents", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_in_the_architecture_is_the_tree() -> None:
    """`make docs` draws it from the folders and their docstrings."""
    generate = _generator()
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert generate.tree_picture() in text
    assert generate.layer_line() in text


@pytest.mark.parametrize(
    "page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/two-way.md", "docs/platforms.md"]
)
def test_every_place_that_a_document_names_exists(page: str) -> None:
    text = BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
    # `clients/` of a repository is meant from the package, `tests/` from the root, `stores/` from what was named before.
    named = {path for path in PATH.findall(text) if path.count("/") > 1 or path.endswith("/")}
    here = (ROOT, ROOT / "src", PACKAGE)
    expect_none(
        [
            path
            for path in sorted(named)
            if not any((root / path).exists() for root in here) and not _within(path)
        ]
    )


def _within(path: str) -> bool:
    """Whether a shortened path is meant: `models/http.py` after `models/registry.py`."""
    return any(found.exists() for found in PACKAGE.rglob(path.rstrip("/")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_section_that_is_linked_exists(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    missing = []
    for name, anchor in ANCHOR.findall(text):
        target = page.parent / name if name else page
        if target.suffix == ".md" and anchor not in _anchors(target):
            missing.append(f"{name}#{anchor}")
    expect_none(missing)


def _anchors(page: Path) -> set[str]:
    """The names that GitHub gives to headings."""
    titles = HEADING.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _programs() -> dict[str, str]:
    found = {}
    for page in PAGES:
        blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
        for number, (kind, block) in enumerate(blocks):
            if kind == "python" and "import " in block and page.name not in WITH_A_TEST_OF_ITS_OWN:
                found[f"{page.stem.replace('-', '_')}_{number}"] = block
    return found


def test_every_program_in_the_documents_type_checks(tmp_path: Path) -> None:
    """Also those that need an agent. What awaits at its top level is meant inside of a function."""
    from mypy import api

    for name, program in _programs().items():
        is_inside = re.search(r"^(?:\w+ = )?await |^async for ", program, re.MULTILINE)
        whole = f"async def main() -> None:\n{textwrap.indent(program, '    ')}" if is_inside else program
        (tmp_path / f"{name}.py").write_text(whole, encoding="utf-8")
    assert {"python_2", "lab_2", "two_way_0"} <= {path.stem for path in tmp_path.iterdir()}
    found, _, _ = api.run([str(tmp_path), "--strict", "--no-error-summary"])
    assert found == ""


def test_the_complete_example_of_tools_prints_what_the_page_says(tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs/tools.md").read_text(encoding="utf-8"))
    place = next(n for n, (_, block) in enumerate(blocks) if "asyncio.run(main())" in block)
    (tmp_path / "talk.toml").write_text("one\ntwo\nthree\nfour\n")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks[place][1]],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stderr == ""
    version = re.compile(r"git version [\w. ()]+")
    assert version.sub("git", done.stdout) == version.sub("git", blocks[place + 1][1])


def test_every_folder_that_the_makefile_tests_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [folders] = re.findall(r"^PORTABLE := \$\(patsubst %,tests/%,(.+)\)$", makefile, re.MULTILINE)
    expect_none([folder for folder in folders.split() if not (ROOT / "tests" / folder).is_dir()])
