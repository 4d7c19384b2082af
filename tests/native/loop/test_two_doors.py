"""`harness run` and a conversation (chat, page, TUI, server) are one agent: the same prompt, tools, options and requests."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from harness.clients.commands import Submit
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.contracts.model import Ask
from harness.contracts.request import Request
from harness.log.stores.files import FileStore
from harness.models.scripted import Scripted
from harness.native.loop.agent_run import AgentRun
from harness.native.loop.loop_context import AgentOptions
from harness.runs.run import start

FOR_A_PERSON = {"ask_user", "submit_plan"}
"""Tools that only a conversation has."""
OTHERWISE = {
    "tools": "compared by what the model is shown",
    "more_tools": "the same",
    "model": "compared by its name",
    "permissions": "objects of two kinds, with the same decisions (tests/approvals)",
    "conversation_id": "each is another conversation",
    "relay_deadline_s": "nobody may look at a run; in a conversation a question waits",
    "ask_permission": "who is asked",
    "on_ask": "who is asked",
    "refusal": "the words of a refusal",
    "request": "of the class alone",
    "tool_deadline_s": "a call of a conversation may wait for a person as long as it takes",
    "gate": "made for the log that it counts for",
    "version": "said by the launch",
    "before_step": "state signals of a session",
    "before_work": "in a run it is the worker that takes the checkpoints",
    "before_call": "functions, made anew",
    "before_run": "functions, made anew",
    "after_call": "functions, made anew",
    "after_answer": "goals of a session",
    "agent": "its name in the log",
}
"""Options that differ, and why."""


class Door(NamedTuple):
    asks: list[Ask]
    options: AgentOptions


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Door]:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    config = tmp_path / "XDG_CONFIG_HOME" / "harness"
    (config / "agents").mkdir(parents=True)
    (config / "agents" / "reviewer.md").write_text("---\nname: reviewer\ndescription: reviews\n---\nReview.")
    other = tmp_path / "other.toml"
    other.write_text('turns = [{ text = "Other." }]')
    (config / "config.toml").write_text(f'[native]\nfallback_models = ["scripted/{other}"]\n')
    server = {"command": sys.executable, "args": ["-m", "harness.lab.echo_server"]}
    for path in (config / "mcp.json", tmp_path / "more.json"):
        path.write_bytes(msgspec.json.encode({"mcpServers": {path.stem: server}}))
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Be brief.")
    script = tmp_path / "script.toml"
    script.write_text('repeat_last = true\nturns = [{ text = "Yes." }]')
    wanted: dict[str, Any] = {
        "cwd": str(work),
        "model": f"scripted/{script}",
        "effort": "high",
        "temperature": 0.5,
        "max_output_tokens": 4_000,
        "context_window": 50_000,
        "append_system_prompt": "Speak German.",
        "mcp": (str(tmp_path / "more.json"),),
    }
    seen: list[Any] = []
    _record(monkeypatch, seen)
    store = FileStore(str(tmp_path / "logs"))
    list(start(Request(agent="native", prompt="go", permissions="full-access", **wanted), store=store))
    through_run = _door(seen)
    seen.clear()
    asyncio.run(_converse(store, Setup(agent="native", permission_mode="fullAuto", **wanted)))
    return {"run": through_run, "chat": _door(seen)}


def _record(monkeypatch: pytest.MonkeyPatch, seen: list[Any]) -> None:
    answer, begin = Scripted.answer, AgentRun.__init__

    def record(model: Scripted, ask: Ask) -> Any:
        seen.append(msgspec.structs.replace(ask, turns=tuple(ask.turns), tools=tuple(ask.tools)))
        return answer(model, ask)

    def note(run: AgentRun, context: Any, options: AgentOptions, **more: Any) -> None:
        seen.append(options)
        begin(run, context, options, **more)

    monkeypatch.setattr(Scripted, "answer", record)
    monkeypatch.setattr(AgentRun, "__init__", note)


def _door(seen: list[Any]) -> Door:
    [options] = [one for one in seen if isinstance(one, AgentOptions)]
    return Door([one for one in seen if isinstance(one, Ask)], options)


async def _converse(store: FileStore, setup: Setup) -> None:
    backend = LocalBackend(store, setup)
    log_id = await backend.create(setup)
    changed = asyncio.Event()
    backend.listen(lambda _log_id: changed.set())
    await backend.carry_out(log_id, Submit(prompt="go"))
    while backend.status(log_id).is_running:
        changed.clear()
        await changed.wait()
    await backend.close()


def test_both_ask_the_model_the_same(doors: dict[str, Door]) -> None:
    [run], [chat] = doors["run"].asks, doors["chat"].asks
    assert "Speak German." in run.turns[0].text
    assert "Be brief." in run.turns[0].text
    assert [turn.text for turn in run.turns] == [turn.text for turn in chat.turns]
    shown = {tool.name: tool for tool in chat.tools if tool.name not in FOR_A_PERSON}
    assert {tool.name: tool for tool in run.tools} == shown
    assert {"mcp__echo", "more__echo"} <= shown.keys()
    assert "reviewer" in str(shown["agent"])
    assert {tool.name for tool in chat.tools} >= FOR_A_PERSON
    for name in ("effort", "temperature", "max_output_tokens", "schema"):
        assert getattr(run, name) == getattr(chat, name), name


def test_both_work_by_the_same_options(doors: dict[str, Door]) -> None:
    run, chat = doors["run"].options, doors["chat"].options
    assert run.model.name == chat.model.name
    assert type(run.model) is type(chat.model)  # with the models that answer where it does not
    for name in sorted(set(AgentOptions.__struct_fields__) - OTHERWISE.keys()):
        assert getattr(run, name) == getattr(chat, name), name
