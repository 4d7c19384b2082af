"""Tools of a harness inside an agent program: decided and carried out here, whatever the program asked about them."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from harness import CommandAgent, GuardContext, Guards, McpServer, Mode, Stop
from harness.events import Relay, RelayReply, ToolEnd, ToolStart, Warning
from harness.log.stores.files import FileStore
from harness.runs.audit import check as audit
from harness_kit import log_of, opened
from running_kit import NO_MODEL, check, fake_claude, in_loop, started, texts


def count_lines(text: str) -> str:
    """How many lines a text has."""
    return f"{len(text.splitlines())} lines"


def agent(folder: Path, **more: Any) -> CommandAgent:
    return fake_claude(folder, "2.1.325", tools=True, **{"permissions": "ask", **more})


def options(folder: Path, **more: Any) -> dict[str, Any]:
    modes = [Mode(id="build", agent=agent(folder, **more.pop("agent", {})))]
    return {"modes": modes, "tools": [count_lines], "initial_state": NO_MODEL, **more}


USE = 'use count_lines {"text": "a\\nb"}'


@in_loop
async def test_a_call_is_asked_about_once_and_carried_out_here(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "data"))
    async with opened(**options(tmp_path), storage=store) as (harness, record):
        sending = started(harness.send_message(content=USE))
        await record.until(harness.session.approval.all)
        [asked] = harness.session.approval.all()
        assert (asked.tool_name, asked.args) == ("count_lines", {"text": "a\nb"})
        assert asked.approve()
        outcome = await sending
        assert outcome.text == "gave: 2 lines"
        log = log_of(harness)
        assert sum(isinstance(event, Relay) for event in log) == 1
        names = [event.tool_name for event in log if isinstance(event, ToolStart | ToolEnd)]
        assert len(names) == 2, "the call is in the log as the program's alone"
        check(harness, log)
        thread_id = harness.session.thread.require_id()
    assert audit(store, thread_id).problems == []


@in_loop
async def test_what_the_program_does_not_ask_about_is_asked_about_all_the_same(tmp_path: Path) -> None:
    async with opened(**options(tmp_path)) as (harness, record):
        sending = started(harness.send_message(content=USE.replace("use", "sneak")))
        await record.until(harness.session.approval.all)
        [asked] = harness.session.approval.all()
        asked.decline("not now")
        assert (await sending).text.startswith("gave: Tool call was not approved by the user: not now")


@in_loop
async def test_always_holds_for_the_next_call(tmp_path: Path) -> None:
    async with opened(**options(tmp_path)) as (harness, record):
        sending = started(harness.send_message(content=USE))
        await record.until(harness.session.approval.all)
        assert harness.session.respond_to_tool_approval(decision="always_allow")
        await sending
        assert (await harness.send_message(content=USE)).text == "gave: 2 lines"


@in_loop
async def test_a_question_is_answered_in_the_middle_of_the_call(tmp_path: Path) -> None:
    async with opened(**options(tmp_path)) as (harness, record):
        sending = started(harness.send_message(content='use ask_the_user {"question": "Which colour?"}'))
        await record.until(harness.session.suspensions.all)
        [question] = harness.session.questions()
        assert question.tool_name == "ask_user"
        harness.session.suspensions.give("blue", "")
        assert (await sending).text == "gave: User answered: blue"


@in_loop
async def test_an_approved_plan_is_carried_out_and_changes_the_mode(tmp_path: Path) -> None:
    modes = [Mode(id="plan", agent=agent(tmp_path), transitions_to="build"), Mode(id="build")]
    async with opened(**options(tmp_path, modes=modes)) as (harness, record):
        sending = started(harness.send_message(content='use submit_plan {"plan": "1. Do it."}'))
        await record.until(harness.session.suspensions.all)
        harness.session.suspensions.give({"action": "approved"}, "")
        assert (await sending).text.startswith("gave: Plan approved.")
        await record.until(lambda: harness.session.mode.get() == "build")


@in_loop
async def test_rules_and_guards_hold_as_for_our_own_agent(tmp_path: Path) -> None:
    def no_b(context: GuardContext) -> Stop | None:
        return Stop("no b") if "b" in str(context.arguments.get("text")) else None

    async with opened(**options(tmp_path), guards=Guards(call=[no_b])) as (harness, _record):
        await harness.session.permissions.set_for_tool(tool_name="count_lines", policy="allow")
        assert (await harness.send_message(content='sneak count_lines {"text": "a"}')).text == "gave: 1 lines"
        assert "no b" in (await harness.send_message(content=USE)).text
        await harness.session.permissions.set_for_tool(tool_name="count_lines", policy="deny")
        answer = await harness.send_message(content='sneak count_lines {"text": "a"}')
        assert "there is no tool called count_lines" in answer.text


@in_loop
async def test_read_only_and_full_access_are_those_of_the_program(tmp_path: Path) -> None:
    servers = {"app": McpServer.here([count_lines], prefix="", category="edit")}
    one = options(tmp_path, agent={"permissions": "read-only"}, tools=[], mcp_servers=servers)
    async with opened(**one) as (harness, record):
        assert "not approved" in (await harness.send_message(content=USE.replace("use", "sneak"))).text
        assert not record.named("tool_approval_required")
    other = options(tmp_path, agent={"permissions": "full-access"}, tools=[], mcp_servers=servers)
    async with opened(**other) as (harness, record):
        assert (await harness.send_message(content=USE.replace("use", "sneak"))).text == "gave: 2 lines"


@in_loop
async def test_a_run_that_is_stopped_refuses_what_still_waits(tmp_path: Path) -> None:
    async with opened(**options(tmp_path)) as (harness, record):
        sending = started(harness.send_message(content=USE))
        await record.until(harness.session.approval.all)
        harness.session.abort()
        await sending
        log = log_of(harness)
        asked = {event.id for event in log if isinstance(event, Relay)}
        assert asked <= {event.id for event in log if isinstance(event, RelayReply)}
        assert not harness.session.questions()


@in_loop
async def test_without_being_told_a_program_gets_no_tools(tmp_path: Path) -> None:
    plain = [Mode(id="build", agent=fake_claude(tmp_path, "2.1.325", permissions="ask"))]
    async with opened(**options(tmp_path, modes=plain)) as (harness, record):
        assert "tools" not in harness.session.capabilities
        await harness.send_message(content="Hello.")
        assert texts(record) == ["You said 'Hello.'."]


@in_loop
async def test_a_program_that_cannot_be_handed_any_is_said(tmp_path: Path) -> None:
    program = fake_claude(tmp_path).binary
    cursor = CommandAgent(name="cursor", binary=program, permissions="full-access", tools=True)
    async with opened(**options(tmp_path, modes=[Mode(id="build", agent=cursor)])) as (harness, _record):
        await harness.send_message(content="Hello.")
        warnings = [event.message for event in log_of(harness) if isinstance(event, Warning)]
        assert "cursor cannot be held in a conversation: it was not handed any tools" in warnings


@in_loop
async def test_only_who_knows_the_token_is_answered(tmp_path: Path) -> None:
    async with opened(**options(tmp_path)) as (harness, _record):
        assert "tools" in harness.session.capabilities
        await harness.send_message(content="Hello.")
        driver: Any = harness.session.internals.driver
        served = driver._tools.served()
        assert is_private(served.file)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        good = dict(served.headers)
        assert await posted(served.url, ping, good) == 200
        assert await posted(served.url, ping, {"Authorization": "Bearer x"}) == 401
        assert await posted(served.url, ping, {}) == 401
        assert await posted(served.url, ping, {**good, "Origin": "http://evil.example"}) == 403
        assert await posted(served.url, ping, {**good, "Host": "evil.example"}) == 403
        assert await posted(served.url.replace("/mcp", "/other"), ping, good) == 404
        assert await posted(served.url, [], good) == 400
        call = {**ping, "method": "tools/call", "params": {"name": "no_such", "arguments": []}}
        assert await posted(served.url, call, good) == 200
        log = "".join(map(repr, log_of(harness)))
        assert served.token not in log
    assert not is_private(served.file)
    with pytest.raises(OSError, match="refused"):
        await posted(served.url, ping, good)


def is_private(path: str) -> bool:
    return os.path.exists(path) and os.stat(path).st_mode & 0o777 == 0o600


async def posted(url: str, body: object, headers: dict[str, str]) -> int:
    def post() -> int:
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                response.read()
                status: int = response.status
                return status
        except urllib.error.HTTPError as error:
            return error.code

    return await asyncio.to_thread(post)
