"""End to end: real agent programs, answered by the lab, call the tools of the harness, which asks a person as always."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from harness import Harness
from harness.contracts.script import Script
from harness.events import ToolEnd
from harness.lab import OfflineAgent, parse_script
from harness.log.stores.files import FileStore
from harness.session.config import CommandAgent, Mode
from harness.session.handed_tools import server_name
from harness_kit import Model, Record, log_of, opened
from lacking import lacking
from running_kit import NO_MODEL, check, ends, in_loop, started

pytestmark = pytest.mark.timeout(300)
PROGRAMS = ("claude", "codex", "gemini", "opencode")


def count_lines(text: str) -> str:
    """How many lines a text has."""
    return f"{len(text.splitlines())} lines"


def _script(server: str) -> Script:
    arguments = {
        "count_lines": {"text": "a\nb"},
        "ask_the_user": {"question": "Which colour?"},
        "submit_plan": {"title": "Paint", "plan": "Paint it."},
    }
    calls = [
        {"call": "mcp", "server": server, "tool": tool, "input": input} for tool, input in arguments.items()
    ]
    return parse_script({"turns": [*calls, {"text": "All done."}]})


async def _answer_all(harness: Harness[Any], record: Record) -> None:
    """A call is allowed, a question answered, a plan sent back."""
    session = harness.session
    await record.until(lambda: bool(session.approval.all()) or ends(record), 200)
    [asked] = session.approval.all()
    assert (asked.tool_name, asked.args) == ("count_lines", {"text": "a\nb"})
    assert asked.approve()
    await record.until(lambda: bool(session.suspensions.all()) or ends(record))
    [question] = session.suspensions.all()
    assert question.tool_name == "ask_user"
    question.answer("blue")
    await record.until(lambda: bool(session.suspensions.all()) or ends(record))
    [plan] = session.suspensions.all()
    assert (plan.tool_name, plan.plan) == ("submit_plan", "Paint it.")
    plan.reject("Which wall?")


@pytest.mark.parametrize("name", PROGRAMS)
@in_loop
async def test_a_real_program_calls_tools_of_this_process_and_asks_through_them(
    name: str, tmp_path: Path
) -> None:
    program = shutil.which(name)
    if program is None:
        pytest.skip(lacking("real agent", name))
    cwd = tmp_path / "project"
    cwd.mkdir()
    store = FileStore(str(tmp_path / "data"))
    async with opened(Model(), storage=store, initial_state=NO_MODEL) as (harness, _record):
        await harness.select_or_create_thread()
        thread = harness.session.internals.thread.current
        assert thread is not None
        server = server_name(thread.id, thread.metadata.created_ms)
    script = _script(server)
    with OfflineAgent(script, name, home=str(tmp_path / "home"), cwd=str(cwd)) as offline:
        request = offline.request("", binary=program)
        agent = CommandAgent(
            name=name,
            binary=program,
            env=request.env,
            extra_args=request.extra_args,
            permissions="ask",
            tools=True,
        )
        modes = [Mode(id="build", agent=agent, default_model_id=request.model)]
        options: dict[str, Any] = {"modes": modes, "tools": [count_lines], "storage": store}
        async with opened(cwd=str(cwd), initial_state=NO_MODEL, **options) as (harness, record):
            await harness.select_or_create_thread()
            sending = started(harness.send_message(content="Go."))
            await _answer_all(harness, record)
            outcome = await sending
            assert (outcome.success, outcome.text) == (True, "All done.")
            outputs = [event.output for event in log_of(harness) if isinstance(event, ToolEnd)]
            for words in ("2 lines", "User answered: blue", "Which wall?"):
                assert any(words in output for output in outputs)
            check(harness, log_of(harness))
