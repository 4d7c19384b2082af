"""Commands that documents show with what they print: called here, they print that."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from cli_machine import CliMachine
from code_blocks import CodeBlock, all_blocks
from harness.version import __version__

TRANSCRIPTS = {
    "$ harness run --agent native --model claude-sonnet-4-6 --prompt hi --format text": (),
    "$ harness list": ("key",),
    "$ harness models resolve fast --agent native": ("settings",),
    "$ harness models list --providers": ("nothing listens",),
    '$ harness run --agent native --model scripted/talk.toml --prompt "What is here?" --format text': (
        "talk",
    ),
    "$ harness run --agent native --model scripted/mcp.toml --mcp mcp.json --prompt go --format transcript": (
        "servers",
    ),
}
"""How their blocks begin, and what has to be there first."""
BLOCKS = {block.first: block for block in all_blocks() if block.first in TRANSCRIPTS}
DURATION = re.compile(r"\b\d+\.\d+s\b")
MCP_SCRIPT = """\
turns = [
  { tool = "lab__echo", input = { text = "hello" } },
  { text = "It said hello." },
]
"""


@pytest.mark.parametrize("first", TRANSCRIPTS)
def test_a_command_prints_what_the_document_shows(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    block = BLOCKS[first]
    for need in TRANSCRIPTS[first]:
        _provide(need, block, cli, monkeypatch)
    monkeypatch.setenv("COLUMNS", "1000")
    answer = cli.call(*shlex.split(first)[2:])
    printed = (answer.err + answer.out).replace(str(cli.home), "/home/me")
    for place in (str(cli.project), f"…/{cli.root.name}/project"):
        printed = printed.replace(place, "/home/me/shop")
    assert _same_each_time(printed) == _same_each_time(block.text.partition("\n")[2])


def _same_each_time(text: str) -> list[str]:
    """How long something took is of the machine, and two streams have no common order."""
    return sorted(DURATION.sub("0.0s", line.rstrip()) for line in text.split("\n") if line.strip())


def _provide(need: str, block: CodeBlock, cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    page = [other.text for other in all_blocks() if other.page == block.page]
    match need:
        case "key":
            monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
        case "settings":
            folder = cli.home / ".config/harness"
            folder.mkdir(parents=True)
            _write(folder / "config.toml", page, "[models.fast]")
        case "nothing listens":
            monkeypatch.setattr("harness.models.registry._listens", lambda *_: False)
        case "talk":
            _write(cli.project / "talk.toml", page, "# talk.toml")
        case "servers":
            cli.script("python", f'exec "{sys.executable}" "$@"\n')
            (cli.project / "mcp.toml").write_text(MCP_SCRIPT)
            _write(cli.project / "mcp.json", page, "mcpServers")


def _write(path: Path, blocks: list[str], part: str) -> None:
    """The block of that page with this in it."""
    [text] = [block for block in blocks if part in block and not block.startswith("$")]
    path.write_text(text)


def test_the_version_that_is_shown_is_this_one() -> None:
    versions = re.compile(r"^native · (\d\S+) ·", re.MULTILINE)
    shown = {version for block in all_blocks() for version in versions.findall(block.text)}
    assert shown <= {__version__}
