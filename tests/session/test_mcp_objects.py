"""MCP servers as objects: programs, addresses and tools of this process, filtered, named, added and removed."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from harness import McpServer, Mode, Subagent, UsageError
from harness.events import ToolEnd, Warning
from harness_kit import Model, call, log_of, make, opened
from running_kit import YOLO, in_loop

SERVER = str(Path(__file__).parent.parent / "native" / "tools" / "mcp_server.py")
needs_mcp = pytest.mark.skipif(
    find_spec("mcp") is None, reason="no mcp: run `make setup`, which installs the extra"
)


def count_lines(text: str) -> str:
    """How many lines a text has."""
    return str(len(text.splitlines()))


def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


def outputs(harness: Any) -> list[str]:
    return [event.output for event in log_of(harness) if isinstance(event, ToolEnd)]


def small(**more: Any) -> McpServer:
    return McpServer.stdio(sys.executable, SERVER, **more)


@in_loop
async def test_tools_of_this_process_need_no_server() -> None:
    model = Model(call("app__count_lines", text="a\nb"), "Two.")
    servers = {"app": McpServer.here([count_lines, shout])}
    async with opened(model, mcp_servers=servers, initial_state=YOLO) as (harness, _record):
        await harness.send_message(content="go")
        assert outputs(harness) == ["2"]
        status = harness.mcp.status()["app"]
        assert (status.state, status.tools) == ("connected", ("app__count_lines", "app__shout"))


@in_loop
async def test_filters_prefix_and_category_hold() -> None:
    servers = {"app": McpServer.here([count_lines, shout], deny=["sh*"], prefix="", category="read")}
    model = Model(call("count_lines", text="a"), call("shout", text="a"), "Done.")
    async with opened(model, mcp_servers=servers) as (harness, _record):
        await harness.session.permissions.set_for_category(category="read", policy="allow")
        await harness.send_message(content="go")
        assert outputs(harness)[0] == "1"
        assert "there is no tool called shout" in outputs(harness)[1]
        assert harness.get_tool_category("count_lines") == "read"


@needs_mcp
@in_loop
async def test_a_program_is_filtered_and_renamed_too() -> None:
    model = Model(call("n__add", a=1, b=2), "Done.")
    servers = {"small": small(allow=["add", "fa*"], deny=["fail"], prefix="n")}
    async with opened(model, mcp_servers=servers, initial_state=YOLO) as (harness, _record):
        await harness.send_message(content="go")
        assert outputs(harness) == ["3"]
        assert harness.mcp.status()["small"].tools == ("n__add",)


@needs_mcp
@in_loop
async def test_servers_come_and_go_while_the_harness_runs() -> None:
    model = Model(call("small__add", a=1, b=2), "Done.", call("small__add", a=1, b=2), "Gone.")
    async with opened(model, initial_state=YOLO) as (harness, _record):
        assert harness.mcp.status() == {}
        assert (await harness.mcp.add("small", small())).state == "connected"
        await harness.send_message(content="go")
        assert await harness.mcp.remove("small")
        assert not await harness.mcp.remove("small")
        await harness.send_message(content="again")
        first, second = outputs(harness)
        assert first == "3"
        assert "there is no tool called small__add" in second


@needs_mcp
@in_loop
async def test_a_server_that_is_replaced_within_a_run_is_asked_by_its_new_self() -> None:
    async def swap() -> str:
        """Another one."""
        await harness.mcp.add("app", McpServer.here([shout]))
        return "swapped"

    model = Model(call("swap"), call("app__shout", text="a"), "Done.")
    servers = {"app": McpServer.here([count_lines])}
    async with opened(model, mcp_servers=servers, tools=[swap], initial_state=YOLO) as (harness, _record):
        await harness.send_message(content="go")
        assert outputs(harness) == ["swapped", "A"]


@needs_mcp
@in_loop
async def test_a_server_that_fails_says_so_and_why() -> None:
    async with opened(Model("Hi."), mcp_servers={"bad": small(), "none": McpServer.stdio("/not/there")}) as (
        harness,
        _record,
    ):
        await harness.mcp.add("bad", McpServer.stdio(sys.executable, SERVER, "crash"))
        await harness.send_message(content="go")
        status = harness.mcp.status()
        assert {name: one.state for name, one in status.items()} == {"bad": "failed", "none": "failed"}
        assert "no configuration found" in status["bad"].problem
        warnings = [event.message for event in log_of(harness) if isinstance(event, Warning)]
        assert any("bad is left out" in message for message in warnings)


@in_loop
async def test_a_mode_has_only_the_servers_that_it_names() -> None:
    modes = [Mode(id="plan", mcp_servers=("one",)), Mode(id="build")]
    servers = {"one": McpServer.here([shout]), "two": McpServer.here([count_lines])}
    model = Model(call("two__count_lines", text="a"), "No.", call("two__count_lines", text="a"), "Yes.")
    options: dict[str, Any] = {"modes": modes, "mcp_servers": servers, "initial_state": YOLO}
    async with opened(model, **options) as (harness, _record):
        await harness.send_message(content="go")
        await harness.session.mode.switch(mode_id="build")
        await harness.send_message(content="go")
        refused, answered = outputs(harness)
        assert "there is no tool called two__count_lines" in refused
        assert answered == "1"


@in_loop
async def test_a_sub_agent_has_the_servers_that_its_definition_names() -> None:
    definition = Subagent(id="counter", name="Counter", description="Counts.", mcp_servers=("one",))
    model = Model(
        call("subagent", agentType="counter", task="Count."),
        call("one__count_lines", text="a\nb\nc"),
        "Three.",
        "It says three.",
    )
    servers = {"one": McpServer.here([count_lines]), "two": McpServer.here([shout])}
    options: dict[str, Any] = {"subagents": [definition], "mcp_servers": servers, "initial_state": YOLO}
    async with opened(model, **options) as (harness, _record):
        await harness.send_message(content="go")
        assert outputs(harness)[0] == "3"
        assert model.tool_names(1) == ["one__count_lines"]


@needs_mcp
@in_loop
async def test_headers_that_change_are_asked_for_with_every_request() -> None:
    seen: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(str(self.headers["authorization"]))
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(401)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Nowhere."""

    tokens = iter(f"token-{number}" for number in range(1, 100))
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        far = McpServer.http(url, headers=lambda: {"authorization": next(tokens)})
        async with opened(Model("Hi."), mcp_servers={"far": far}) as (harness, _record):
            assert harness.mcp.status()["far"].state == "failed"
            await harness.mcp.add("far", far)
        server.shutdown()
    assert len(set(seen)) == len(seen) > 1
    assert all(token.startswith("token-") for token in seen)


WRONG: dict[str, Callable[[], object]] = {
    "command": lambda: McpServer.stdio(""),
    "url": lambda: McpServer.http("example.invalid/mcp"),
    "allow": lambda: McpServer.stdio("x", allow="read_*"),
    "deny": lambda: McpServer.here([shout], deny="x"),
    "prefix": lambda: McpServer.stdio("x", prefix="a b"),
    "category": lambda: McpServer.stdio("x", category="reed"),  # type: ignore[arg-type]
    "startup_timeout_s": lambda: McpServer.stdio("x", startup_timeout_s=0),
    "headers": lambda: McpServer.http("http://x", headers=3),  # type: ignore[arg-type]
    "tools": lambda: McpServer.here([3]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_right_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        WRONG[name]()


def test_a_name_that_no_tool_could_begin_with_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be called"):
        make(Model(), mcp_servers={"a b": McpServer.here([shout])})


def test_adding_what_is_no_server_is_refused() -> None:
    harness = make(Model())
    with pytest.raises(UsageError, match="mcp_servers: x"):
        asyncio.run(harness.mcp.add("x", {"command": 3}))
