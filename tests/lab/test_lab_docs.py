"""docs/lab.md and docs/scripts.md name everything there is, and their examples are good."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from harness.cli.parser import parser_of
from harness.contracts.script import (
    FAULTS,
    INTENTS,
    ScriptConversation,
    ScriptPart,
    ScriptStop,
    ScriptUsage,
    SideRequests,
)
from harness.lab import read_script
from harness.models.wires.wire import ModelRequest, Tokens, all_wires

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("lab.md", "scripts.md"))
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_is_a_script(number: int, tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(EXAMPLES[number], encoding="utf-8")
    assert read_script(str(path)).conversations


def test_everything_that_can_be_written_is_described() -> None:
    named = {*INTENTS, *FAULTS, *get_args(ScriptStop)}
    for kind in (*INTENTS.values(), *set(FAULTS.values()), ScriptUsage, SideRequests):
        named |= {field.name for field in msgspec.structs.fields(kind)}
    named |= {field.name for kind in get_args(ScriptPart) for field in msgspec.structs.fields(kind)}
    named |= {field.name for field in msgspec.structs.fields(ScriptConversation)}
    assert sorted(name for name in named if not re.search(rf"\b{re.escape(name)}\b", PAGE)) == []


def test_every_api_and_every_option_is_described() -> None:
    assert all(wire.title in PAGE for wire in all_wires().values())
    options = re.findall(r"--[a-z]+", parser_of("lab").format_help())
    assert {"--port", "--record", "--agent", "--cwd", "--home"} <= set(re.findall(r"--[a-z]+", PAGE)), options


def test_the_defaults_of_tokens_are_those_in_the_page() -> None:
    assert ", ".join(str(count) for count in msgspec.structs.astuple(Tokens())) in PAGE
    assert ModelRequest(model="", system="", opening="", answers=0).content_type == "text/event-stream"
