"""A provider reads again at a fraction of the price what it has read: the beginning of a conversation stays as it is."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.clients.commands import Configuration, Configure, Submit
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.contracts.model import Ask, SystemTurn
from harness.contracts.request import Request
from harness.events import Info, Message, SessionStart
from harness.log.store import read_all
from harness.log.stores.files import FileStore
from harness.models.anthropic import Anthropic
from harness.models.chat import ChatCompletions
from harness.models.gemini import Gemini
from harness.models.http import ModelEndpoint
from harness.models.responses import Responses
from harness.models.scripted import Scripted
from harness.native.loop.system_prompt import news
from harness.native.loop.working_rules import SECTIONS, working_rules
from harness.native.tools.registry import default_tools, names_of
from harness.runs.run import start

MOST_TOKENS = 2_000
MESSAGES = 10
WIRES = (Anthropic, Responses, Gemini, ChatCompletions)


class Recorder:
    """The scripted model, which keeps what it was asked."""

    asked: list[Ask]

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = []
        answer, asked = Scripted.answer, self.asked

        def record(model: Scripted, ask: Ask) -> Any:
            asked.append(
                Ask(turns=tuple(ask.turns), tools=tuple(ask.tools), conversation_id=ask.conversation_id)
            )
            return answer(model, ask)

        monkeypatch.setattr(Scripted, "answer", record)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return Recorder(monkeypatch)


def sent(wire: Any, asked: list[Ask]) -> list[list[str]]:
    """What goes over the wire in each request, in the order in which providers read it: tools, instructions, turns."""
    endpoint = ModelEndpoint(provider="x", model="m", url="http://127.0.0.1:1/v1", key="k")
    requests = []
    for ask in asked:
        body = json.loads(wire(endpoint).prepare(ask).body)
        first = [
            json.dumps(body.get(name)) for name in ("tools", "system", "instructions", "systemInstruction")
        ]
        turns = next(body[name] for name in ("messages", "input", "contents") if name in body)
        requests.append(first + [json.dumps(_without_marks(turn)) for turn in turns])
    return requests


def _without_marks(value: Any) -> Any:
    """Where Anthropic's cache is to end moves on with each request, and is no part of what is read."""
    if isinstance(value, dict):
        return {name: _without_marks(inner) for name, inner in value.items() if name != "cache_control"}
    return [_without_marks(inner) for inner in value] if isinstance(value, list) else value


async def until_idle(backend: LocalBackend, log_id: str) -> None:
    changed = asyncio.Event()
    backend.listen(lambda _log_id: changed.set())
    while backend.status(log_id).is_running:
        changed.clear()
        await changed.wait()


async def converse(store: FileStore, cwd: str, script: Path) -> None:
    """Ten messages, with a new file at the top, a restart and a change of the mode on the way."""
    setup = Setup(agent="native", model=f"scripted/{script}", cwd=cwd, permission_mode="fullAuto")
    backend = LocalBackend(store, setup)
    log_id = await backend.create(setup)
    for number in range(MESSAGES):
        if number == 3:
            (Path(cwd) / "new-file.txt").write_text("x")
        if number == 5:
            await backend.close()
            backend = LocalBackend(store, setup)
        if number in (7, 8):
            mode = "plan" if number == 7 else "build"
            await backend.carry_out(log_id, Configure(config=Configuration(mode=mode)))
        await backend.carry_out(log_id, Submit(prompt=f"message {number}"))
        await until_idle(backend, log_id)
    await backend.close()


def test_the_beginning_of_a_conversation_stays_in_every_api(recorder: Recorder, tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    script = tmp_path / "script.toml"
    script.write_text('repeat_last = true\nturns = [{ text = "Yes." }]')
    asyncio.run(converse(FileStore(str(tmp_path / "logs")), str(cwd), script))
    assert len(recorder.asked) == MESSAGES
    assert len({ask.conversation_id for ask in recorder.asked}) == 1
    assert recorder.asked[0].conversation_id
    for earlier, later in pairwise(recorder.asked):
        assert later.tools == earlier.tools
        assert later.turns[: len(earlier.turns)] == earlier.turns
    for wire in WIRES:
        requests = sent(wire, recorder.asked)
        for before, after in pairwise(requests):
            assert _without_marks(after[: len(before)]) == before, wire.__name__
    planned = [turn.text for turn in recorder.asked[-1].turns if turn.text.startswith("<mode ")]
    assert [text.partition(">")[0] for text in planned] == ['<mode id="plan"', '<mode id="build"']


def test_a_run_that_continues_keeps_its_prompt_and_is_told_what_is_new(
    recorder: Recorder, tmp_path: Path
) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    script = tmp_path / "script.toml"
    script.write_text('repeat_last = true\nturns = [{ text = "Yes." }]')
    store = FileStore(str(tmp_path / "logs"))
    request = Request(agent="native", prompt="one", cwd=str(cwd), model=f"scripted/{script}")
    first = list(start(request, store=store))
    [begun] = [event for event in first if isinstance(event, SessionStart)]
    assert begun.prompt.startswith("You are a coding agent.")
    (cwd / "AGENTS.md").write_text("Never touch setup.py.")
    again = Request(
        agent="native",
        prompt="two",
        cwd=str(cwd),
        model=f"scripted/{script}",
        resume=begun.session_id or begun.run_id,
    )
    second = list(start(again, store=store))
    [continued] = [event for event in second if isinstance(event, SessionStart)]
    assert continued.prompt == ""
    before, after = recorder.asked
    assert after.turns[: len(before.turns)] == before.turns
    told = [event.text for event in second if isinstance(event, Message) and event.role == "system"]
    assert len(told) == 1
    assert "Never touch setup.py." in told[0]
    third = list(start(again, store=store))
    assert not [event for event in third if isinstance(event, Message) and event.role == "system"]


def test_instructions_that_change_during_a_conversation_are_told_once(
    recorder: Recorder, tmp_path: Path
) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    (cwd / "AGENTS.md").write_text("Be brief.")
    script = tmp_path / "script.toml"
    script.write_text('repeat_last = true\nturns = [{ text = "Yes." }]')
    store = FileStore(str(tmp_path / "logs"))
    setup = Setup(agent="native", model=f"scripted/{script}", cwd=str(cwd), permission_mode="fullAuto")

    async def talk() -> str:
        backend = LocalBackend(store, setup)
        log_id = await backend.create(setup)
        for number in range(3):
            if number == 1:
                (cwd / "AGENTS.md").write_text("Be brief.\nNever touch setup.py.")
            await backend.carry_out(log_id, Submit(prompt=f"message {number}"))
            await until_idle(backend, log_id)
        await backend.close()
        return log_id

    log_id = asyncio.run(talk())
    first, second, third = recorder.asked
    assert "Be brief." in first.turns[0].text
    assert second.turns[: len(first.turns)] == first.turns
    told = [turn.text for turn in third.turns[1:] if "Never touch setup.py." in turn.text]
    assert len(told) == 1
    assert "Be brief." not in told[0]
    named = [event for event in read_all(store, log_id) if isinstance(event, Info)]
    assert [event.message for event in named if event.code == "instructions"] == [
        f"the model is given the instructions in {cwd}/AGENTS.md"
    ]


def test_files_at_the_top_are_no_news() -> None:
    assert news("Date: 1\nIn the directory: a", "Date: 1\nIn the directory: a, b") == ""
    assert "Date: 2" in news("Date: 1\nIn the directory: a", "Date: 2\nIn the directory: a, b")
    assert len(news("", "x" * 100_000)) < 9_000


@pytest.mark.parametrize("model", ["", "openai/gpt-5.5", "gemini/gemini-3-pro", "anthropic/claude-opus-5-5"])
def test_the_rules_are_worth_their_tokens(model: str) -> None:
    text = working_rules("/home/me/project", "Linux", names_of(sandbox=False), model)
    assert 800 < len(text) // 4 < MOST_TOKENS
    assert "{" not in text


def test_no_rule_speaks_of_a_tool_that_is_not_there(tmp_path: Path) -> None:
    every = set(names_of(sandbox=False))
    assert every | {"skill"} >= {tool.spec.name for tool in default_tools(str(tmp_path))} >= every
    reading = {tool.spec.name for tool in default_tools(str(tmp_path), "read-only")}
    text = working_rules("/x", "Linux", reading, "gpt-5")
    missing = every - reading
    assert {"bash", "edit", "apply_patch"} <= missing
    words = set(text.replace("`", " ").replace(",", " ").replace(".", " ").replace(";", " ").split())
    assert not {"bash", "apply_patch", "bash_output"} & words
    for section in SECTIONS:
        for rule in section.rules:
            named = {
                name
                for name in ("bash_output", "apply_patch", "todo", "grep", "glob")
                if name in rule.text.split()
            }
            assert named <= set(rule.tools), rule.text


def test_the_system_prompt_is_logged_once(recorder: Recorder, tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    script = tmp_path / "script.toml"
    script.write_text('repeat_last = true\nturns = [{ text = "Yes." }]')
    store = FileStore(str(tmp_path / "logs"))
    asyncio.run(converse(store, str(cwd), script))
    [log] = store.list()
    prompts = [one.prompt for one in read_all(store, log.session_id) if isinstance(one, SessionStart)]
    assert len([prompt for prompt in prompts if prompt]) == 1
    assert isinstance(recorder.asked[-1].turns[0], SystemTurn)
    assert recorder.asked[-1].turns[0].text == prompts[0]
