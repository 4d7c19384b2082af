"""MCP servers of a harness: given by name or by file, offered to every run, asked about, and gone with it."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.events import ToolEnd, Warning
from harness_kit import Model, call, log_of, make, opened
from running_kit import YOLO, in_loop

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra `mcp` is not installed")

SERVER = str(Path(__file__).parent.parent / "native" / "tools" / "mcp_server.py")


def entry(*arguments: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SERVER, *arguments], **more}


def outputs(harness: Any) -> list[str]:
    return [event.output for event in log_of(harness) if isinstance(event, ToolEnd)]


@in_loop
async def test_tools_of_servers_are_offered_and_gained_ones_with_the_next_step() -> None:
    model = Model(call("small__add", a=20, b=22), call("small__grow"), call("small__grown"), "Done.")
    async with opened(model, mcp_servers={"small": entry()}, initial_state=YOLO) as (harness, _record):
        await harness.send_message(content="go")
        assert outputs(harness) == ["42", "now there is more", "it has grown"]


@in_loop
async def test_a_server_ends_with_the_harness(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    async with opened(Model("Hi."), mcp_servers={"small": entry("", str(pid))}) as (harness, _record):
        await harness.send_message(content="go")
        os.kill(int(pid.read_text()), 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@in_loop
async def test_servers_may_be_named_by_files_and_bad_ones_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"small": entry(), "bad": entry("crash")}}))
    model = Model(call("small__add", a=1, b=1), "Done.")
    async with opened(model, mcp_servers=str(file), initial_state=YOLO) as (harness, _record):
        await harness.send_message(content="go")
        assert outputs(harness) == ["2"]
        [warning] = [event for event in log_of(harness) if isinstance(event, Warning)]
        assert "bad is left out" in warning.message
        assert "no configuration found" in warning.message


def test_an_entry_that_is_none_is_refused() -> None:
    for wrong in ({}, {"command": 3}, {"type": "pigeon", "url": "x"}, {"command": "${NOT_SET_ANYWHERE}"}):
        with pytest.raises(UsageError, match="mcp_servers: bad: "):
            make(Model(), mcp_servers={"bad": wrong})


@in_loop
async def test_a_rule_for_servers_holds_for_tools_that_come_later() -> None:
    model = Model(call("small__grow"), call("small__grown"), "Done.")
    async with opened(model, mcp_servers={"small": entry()}) as (harness, _record):
        await harness.session.permissions.set_for_tool(tool_name="small__grow", policy="allow")
        await harness.session.permissions.set_for_category(category="mcp", policy="deny")
        await harness.send_message(content="go")
        grown, new = outputs(harness)
        assert grown == "now there is more"
        assert "denied" in new
