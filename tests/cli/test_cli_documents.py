"""What the documents show is what there is: commands are accepted, programs run, links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli_machine import CliMachine
from shown_commands import bare_command, commands_in, is_accepted

ROOT = Path(__file__).parents[2]
_PLACES = (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "examples/README.md")
PAGES = [page for page in _PLACES if page.name != "CHANGELOG.md"]
"""The changelog names commands as they were."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MAKE = re.compile(r"^(?:\$ )?make ((?:[\w-]+(?:=\S+)? ?)+)", re.MULTILINE)
_INLINE_MAKE = re.compile(r"`make ([^`]+)`")
_NOT_OURS = {"x", "*"}
"""`make x`: whatever a project has."""
_INLINE = re.compile(r"`harness ([^`]+)`")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def _commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    shown = [
        command
        for kind, block in _BLOCK.findall(text)
        if kind in ("", "sh")
        for command in commands_in(block)
    ]
    return [*shown, *map(bare_command, _INLINE.findall(_BLOCK.sub("", text)))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_the_documents_is_one_that_harness_takes(page: Path) -> None:
    assert [command for command in _commands(page) if not is_accepted(command)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_verb_of_make_in_the_documents_is_one(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [verbs] = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    text = page.read_text(encoding="utf-8")
    shown = [
        line for kind, block in _BLOCK.findall(text) if kind in ("", "sh") for line in _MAKE.findall(block)
    ]
    inline = _INLINE_MAKE.findall(_BLOCK.sub("", text))
    # `make check test` has two, `make test ARGS=…` one, and a setting.
    words = {word for line in (*shown, *inline) for word in re.split(r" \w+=| \*", line)[0].split()}
    assert words - set(verbs.split()) - _NOT_OURS == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_in_the_documents_leads_to_a_file(page: Path) -> None:
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    assert [link for link in _LINK.findall(text) if not (page.parent / link).exists()] == []


def test_every_page_of_the_documents_is_in_the_list_of_them() -> None:
    listed = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.parent.name == "docs" and f"({page.name})" not in listed] == [
        "README.md"
    ]


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_every_first_program_runs_as_it_stands(cli: CliMachine, number: int) -> None:
    cli.install("claude", before="head -n1 >/dev/null")  # a conversation does not end its input
    cli.install("codex")
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/python.md")]
    programs = [block for text in texts for kind, block in _BLOCK.findall(text) if kind == "python"]
    assert len(programs) == 4
    environ = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), **cli.environ}
    done = subprocess.run(
        [sys.executable, "-c", programs[number]],
        cwd=cli.project,
        env=environ,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
