"""A gateway of a program that lasts from message to message: what is recorded of each run, and what limits it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway_place import KEY, TURNS, Place, calls_of
from harness import Harness, Mode
from harness.agents.registry import load, load_part
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.presets import backing_of, checked
from harness.contracts.request import GatewayOptions, Limits, Request
from harness.errors import UsageError
from harness.events import Result, SessionStart
from harness.fleet.plans.plan import FleetCase, FleetPlan, FleetTask, Variant
from harness.gateway.recorded import Recording
from harness.log.raw import RawRequest, read_raw
from harness.log.store import read_all
from harness.runs import gateway_use
from harness.runs.audit import check
from harness.runs.launch import prepare
from harness.runs.program_conversation import ProgramConversation
from harness.runs.replay_request import recorded_run, replay_request
from harness.runs.run import start
from harness.session.config import CommandAgent

SECOND: list[Any] = [{"call": "run", "command": "cat data.txt"}, {"text": "Done again."}]


def _raw_paths(place: Place) -> list[Path]:
    return sorted((place.folder / "sessions").glob("*.raw"), key=lambda path: path.stat().st_mtime_ns)


def _conversation(place: Place, prompts: list[str], between: Any = None, **options: Any) -> list[Any]:
    """A run for each prompt, by one process if it lives."""
    conversation = ProgramConversation()
    runs = []
    session = ""
    try:
        for prompt in prompts:
            request = Request(
                agent="claude",
                prompt=prompt,
                cwd=str(place.cwd),
                two_way=True,
                gateway=GatewayOptions(),
                resume=session,
                **options,
            )
            run = start(request, store=place.store, conversation=conversation)
            events = list(run)
            session = next(event.session_id for event in events if isinstance(event, SessionStart))
            runs.append((run, events))
            if between is not None and conversation.line is not None:
                between(conversation.line)
    finally:
        conversation.close()
    return runs


def test_each_run_of_a_conversation_has_its_own_calls_and_can_be_read_alone(place: Place) -> None:
    place.script([*TURNS, *SECOND])
    runs = _conversation(place, ["Go.", "Again."])
    assert [run.wait().outcome for run, _ in runs] == ["completed", "completed"]
    assert [run.wait().text for run, _ in runs] == ["Done.", "Done again."]
    assert [len(calls_of(events)) for _, events in runs] == [3, 2]
    for run, _ in runs:
        assert not check(place.store, run.id).problems
    for path in _raw_paths(place):
        entries = list(read_raw(str(path)))
        numbers = {entry.id for entry in entries if isinstance(entry, RawRequest)}
        assert all(entry.of in {0, *numbers} for entry in entries if isinstance(entry, RawRequest))
        assert all(call.is_answered for call in Recording(entries).calls)


def test_a_program_that_was_killed_between_two_messages_goes_on_through_another_gateway(place: Place) -> None:
    place.script([*TURNS, *SECOND])

    def kill(line: Any) -> None:
        os.kill(line.child.pid, signal.SIGKILL)
        line.take_back()
        while line.child.exit is None:
            line.child.read(1.0)

    runs = _conversation(place, ["Go.", "Again."], between=kill)
    assert [run.wait().outcome for run, _ in runs] == ["completed", "completed"]
    used = [run.wait().usage for run, _ in runs]
    assert [(one.input, one.output) for one in used if one is not None] == [(3000, 150), (2000, 100)]


def test_a_limit_holds_before_a_call_of_a_conversation_too(place: Place) -> None:
    asked = len(place.lab.requests)
    [(run, events)] = _conversation(place, ["Go."], limits=Limits(max_budget_usd=0.0035))
    assert run.wait().outcome != "completed"
    assert len(place.lab.requests) - asked == 1
    assert [call.origin for call in calls_of(events)][:1] == ["provider"]


def test_a_harness_puts_its_gateway_before_every_program(place: Place) -> None:
    asyncio.run(_two_messages(place))


async def _two_messages(place: Place) -> None:
    place.script([*TURNS, *SECOND])
    harness = Harness(
        id="h",
        modes=[Mode(id="build")],
        storage=place.store,
        agent=CommandAgent(name="claude", permissions="full-access"),
        gateway=GatewayOptions(),
        cwd=str(place.cwd),
    )
    await harness.init()
    try:
        thread = await harness.session.thread.create()
        await harness.session.send_message(content="Go.")
        await harness.session.send_message(content="Again.")
        log_id = thread.id
    finally:
        await harness.destroy()
    events = list(read_all(place.store, log_id))
    assert len(calls_of(events)) == 5
    used = [event.usage.input for event in events if isinstance(event, Result) and event.usage is not None]
    assert used == [3000, 2000]
    assert KEY not in repr(events)


@pytest.mark.parametrize("is_ended", [True, False], ids=["ended", "alive"])
def test_a_program_whose_home_ends_with_it_is_told_what_was_said(
    place: Place, monkeypatch: pytest.MonkeyPatch, is_ended: bool
) -> None:
    """Gemini CLI, Cline and Grok cannot resume behind a gateway: each of their processes has a home of its own."""
    pointing = replace(load_part("claude", "gateway"), not_beside="it is to have a home of its own")
    monkeypatch.setattr(gateway_use, "load_part", lambda agent, part: pointing)
    place.script([*TURNS, *([] if is_ended else SECOND)])
    runs = asyncio.run(_before_and_after(place, is_ended=is_ended))
    assert [run.text for run in runs] == ["Done.", "Done." if is_ended else "Done again."]
    told = msgspec.json.encode([entry.body for entry in place.lab.requests[-2:]]).decode()
    assert told.count("Again.") >= 1
    assert ("User: Go." in told) == is_ended


async def _before_and_after(place: Place, *, is_ended: bool) -> list[Result]:
    harness = await _opened(place)
    try:
        thread_id = (await harness.session.thread.create()).id
        await harness.session.send_message(content="Go.")
        if is_ended:
            await harness.destroy()
            place.script(TURNS)
            harness = await _opened(place)
            await harness.session.thread.switch(thread_id=thread_id)
        await harness.session.send_message(content="Again.")
    finally:
        await harness.destroy()
    return [event for event in read_all(place.store, thread_id) if isinstance(event, Result)]


async def _opened(place: Place) -> Harness:
    agent = CommandAgent(name="claude", permissions="full-access", gateway=GatewayOptions())
    harness = Harness(id="h", modes=[Mode(id="build")], storage=place.store, agent=agent, cwd=str(place.cwd))
    await harness.init()
    return harness


def test_a_session_that_would_be_lost_is_not_resumed(place: Place) -> None:
    request = Request(
        agent="gemini", prompt="Go.", cwd=str(place.cwd), resume="abc", gateway=GatewayOptions()
    )
    assert gateway_use.loses_home(request, os.environ)
    with pytest.raises(UsageError, match="cannot resume a session"):
        gateway_use.through_gateway(load("gemini"), request, "0.61.0", os.environ)
    assert not gateway_use.loses_home(replace(request, gateway=None), os.environ)


def test_a_harness_refuses_a_gateway_that_is_none() -> None:
    with pytest.raises(UsageError, match="gateway"):
        Harness(id="h", modes=[Mode(id="build")], gateway=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("wanted", [{"gateway": True}, {"sealed": "write"}])
def test_a_conversation_with_the_built_in_agent_is_refused_a_gateway(
    place: Place, wanted: dict[str, Any]
) -> None:
    setup = Setup(agent="native", model="scripted/demo", cwd=str(place.cwd), **wanted)
    for look in (checked, backing_of):
        with pytest.raises(UsageError, match="a conversation with the built-in agent cannot be"):
            look(setup)


def test_a_setup_says_whether_there_is_a_gateway(place: Place) -> None:
    setup = Setup(agent="claude", cwd=str(place.cwd), permission_mode="fullAuto")
    assert backing_of(checked(setup)).gateway is None  # type: ignore[union-attr]
    through = Setup(agent="claude", cwd=str(place.cwd), permission_mode="fullAuto", gateway=True)
    assert backing_of(checked(through)).gateway == GatewayOptions()  # type: ignore[union-attr]
    sealed = Setup(
        agent="claude", cwd=str(place.cwd), permission_mode="fullAuto", sealed="write", allow_hosts=("a.org",)
    )
    backing = backing_of(checked(sealed))
    assert isinstance(backing, CommandAgent)
    assert (backing.sealed, backing.gateway) == ("write", GatewayOptions(allow_hosts=("a.org",)))
    with pytest.raises(UsageError, match="sealed agent only"):
        checked(Setup(agent="claude", cwd=str(place.cwd), allow_hosts=("a.org",)))


def test_a_variant_of_a_fleet_says_whether_there_is_a_gateway(place: Place) -> None:
    task = FleetTask(id="t", prompt="Go.")
    for variant, expected in (
        (Variant(name="a", agent="claude"), (None, "")),
        (Variant(name="a", agent="claude", gateway=True), (GatewayOptions(), "")),
        (Variant(name="a", agent="claude", sealed="read"), (GatewayOptions(), "read")),
    ):
        plan = FleetPlan(name="p", tasks=(task,), variants=(variant,))
        request = FleetCase("c", task, variant, 0).request(plan, str(place.cwd), {})
        assert (request.gateway, request.sealed) == expected


@pytest.mark.parametrize(
    ("text", "has_key", "expected"),
    [
        ('use = "never"', True, None),
        ('use = "keys"', True, GatewayOptions()),
        ('use = "keys"', False, None),
        ('use = "always"\nbodies = "none"', True, GatewayOptions(keeps_bodies=False)),
    ],
)
def test_the_settings_may_put_a_gateway_before_every_program(
    place: Place, monkeypatch: pytest.MonkeyPatch, text: str, has_key: bool, expected: GatewayOptions | None
) -> None:
    config = place.folder / "config"
    (config / "harness").mkdir(parents=True)
    (config / "harness" / "config.toml").write_text(f"[gateway]\n{text}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    if not has_key:
        monkeypatch.delenv("ANTHROPIC_API_KEY")
    launch = prepare(Request(agent="claude", prompt="Go.", cwd=str(place.cwd)))
    assert (launch.gateway.options if launch.gateway is not None else None) == expected
    assert ("ANTHROPIC_API_KEY" in launch.invocation.env) == has_key
    if has_key:
        assert (launch.invocation.env["ANTHROPIC_API_KEY"] == KEY) == (expected is None)


def test_a_thread_of_a_harness_can_begin_at_a_step_of_a_recorded_run(place: Place) -> None:
    run, _ = place.run()
    request = replay_request(recorded_run(place.store, run.id), options=GatewayOptions(fork_at=2))
    assert request.gateway is not None
    asked = len(place.lab.requests)
    place.script([*TURNS[:2], {"text": "Another end."}, {"text": "And on."}])
    answers = asyncio.run(_forked(place, request.gateway))
    assert answers == ["Another end.", "And on."]  # the model that goes on is there for the next message, too
    assert len(place.lab.requests) - asked == 2


async def _forked(place: Place, gateway: GatewayOptions) -> list[str]:
    async with Harness(
        id="h",
        modes=[Mode(id="build")],
        storage=place.store,
        agent=CommandAgent(name="claude", permissions="full-access", gateway=gateway),
        cwd=str(place.cwd),
    ) as harness:
        thread = await harness.session.thread.create()
        await harness.session.send_message(content="Go.")
        await harness.session.send_message(content="More.")
        log_id = thread.id
    return [event.text for event in read_all(place.store, log_id) if isinstance(event, Result)]
