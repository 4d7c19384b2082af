"""Whole runs with Codex in a conversation: a program plays what Codex said, and the worker of a run talks to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from codex_dialogues import FOLDER
from harness import FileStore, Request, Run, start
from harness.events import (
    Event,
    Message,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    ToolEnd,
    ToolStart,
)
from harness.runs.audit import check
from harness.runs.program_conversation import ProgramConversation
from recorded_peer import peer_program


class Codex:
    """A conversation with a recording in the place of Codex."""

    def __init__(self, folder: Path, name: str) -> None:
        version = name.partition("/")[0]
        self._binary = peer_program(folder, FOLDER / f"{name}.bidi.jsonl.gz", version)
        self._folder = folder
        self._store = FileStore(str(folder / "sessions"))
        self.conversation = ProgramConversation()

    def run(self, prompt: str, act: Callable[[Run, Event], object], permissions: Any = "ask") -> list[Event]:
        request = Request(
            agent="codex",
            prompt=prompt,
            binary=self._binary,
            cwd=str(self._folder),
            permissions=permissions,
            two_way=True,
        )
        live = start(request, store=self._store, conversation=self.conversation)
        events: list[Event] = []
        for event in live:
            events.append(event)
            act(live, event)
        live.wait()
        assert check(self._store, live.id).problems == []
        return events


def of(kind: Any, events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def nothing(_run: Run, _event: Event) -> None:
    pass


def replying(**reply: Any) -> Callable[[Run, Event], object]:
    return lambda run, event: isinstance(event, Relay) and run.reply(event.id, **reply)


def test_a_call_is_asked_about_allowed_and_made(tmp_path: Path) -> None:
    events = Codex(tmp_path, "0.166.0/allow").run("go", replying(approved=True))

    [relay], [reply], [end] = of(Relay, events), of(RelayReply, events), of(ToolEnd, events)
    assert (relay.tool_name, relay.call_id) == ("shell", end.call_id)
    [asked_call] = relay.calls
    assert (asked_call.input["command"], asked_call.category) == ("touch a.txt", "execute")
    # It was recorded in another folder: nothing is offered for always there.
    assert [choice.kind for choice in relay.choices] == ["allow-once", "reject-once"]
    assert (reply.approved, reply.by) == (True, "person")
    assert end.success is True
    assert of(Result, events)[-1].text == "Done."


def test_a_call_is_refused_with_a_reason(tmp_path: Path) -> None:
    events = Codex(tmp_path, "0.166.0/deny").run("go", replying(approved=False, reason="use b.txt instead"))

    [end] = of(ToolEnd, events)
    assert end.success is False
    assert of(Result, events)[-1].text == "I understand."


def test_a_message_in_the_middle_is_in_the_log_once_it_was_taken(tmp_path: Path) -> None:
    def act(run: Run, event: Event) -> None:
        if isinstance(event, ToolStart):
            run.steer("also do X")

    events = Codex(tmp_path, "0.166.0/steer").run("start", act, "full-access")
    said = [(event.role, event.text) for event in of(Message, events)]
    assert said[:2] == [("user", "start"), ("assistant", "Step one.")]
    assert sorted(said[2:]) == [("assistant", "I saw it."), ("user", "also do X")]


def test_an_interrupted_turn_is_followed_by_another_one_in_the_same_process(tmp_path: Path) -> None:
    codex = Codex(tmp_path, "0.166.0/interrupt-in-tool")
    first = codex.run("run", lambda run, event: isinstance(event, ToolStart) and run.cancel(), "full-access")
    line = codex.conversation.line
    second = codex.run("go on", nothing, "full-access")

    assert of(Result, first)[-1].outcome == "interrupted"
    assert (of(Result, second)[-1].outcome, of(Result, second)[-1].text) == ("completed", "After.")
    assert codex.conversation.line is line
    assert first[0].session_id == second[0].session_id
    codex.conversation.close()


def test_a_question_of_a_sub_agent_reaches_the_person(tmp_path: Path) -> None:
    events = Codex(tmp_path, "0.166.0/subagent-asks").run("delegate", replying(approved=True))

    [relay] = of(Relay, events)
    [child] = [one for one in of(SessionStart, events) if one.run_id != events[0].run_id]
    assert relay.spawn_call_id == child.parent_id
    assert relay.subagent == "sub-agent 1"
    assert of(Result, events)[-1].text == "Helper is done."


def test_a_question_of_the_model_is_answered(tmp_path: Path) -> None:
    events = Codex(tmp_path, "0.166.0/question").run("ask me", replying(approved=True, answer="B"))

    [relay] = of(Relay, events)
    assert (relay.kind, relay.question, relay.options) == ("question", "Which one?", ["A", "B"])
    assert of(Result, events)[-1].text == "You picked B."
