"""The events of OpenCode's server give the same log as `run --format json` does, and more of it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.agents.registry import load
from harness.contracts.translator import Ending, Translator
from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TasksChanged,
    TextDelta,
    ToolEnd,
    ToolStart,
    Unknown,
    UsageDelta,
    Warning,
)
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline

RECORDINGS = Path(__file__).parents[2] / "recordings"
AGENTS = ["opencode", "kilo"]


def stream(agent: str, way: str) -> bytes:
    return gzip.decompress((RECORDINGS / "both-ways" / f"{agent}.{way}.jsonl.gz").read_bytes())


def events_of(agent: str, way: str, cuts: int = 1) -> list[Event]:
    """`cuts`: into how many pieces the output comes."""
    known = load(agent)
    assert known.two_way is not None
    pipeline = Pipeline(known.translator() if way == "run" else known.two_way.translator())
    data = stream(agent, way)
    size = len(data) // cuts + 1
    lines, opening = b"", b""
    events = [*pipeline.feed(RawStart(at_ms=0, agent=agent, cwd="/lab/p", prompt="go"))]
    for start in range(0, len(data), size):
        lines, _, opening = (opening + data[start : start + size]).rpartition(b"\n")
        if lines:
            events += pipeline.feed(RawOutput(at_ms=1, stream="stdout", data=lines + b"\n"))
    events += pipeline.feed(RawExit(at_ms=2, code=0))
    assert not pipeline.lost
    return events


def plain(value: Any) -> Any:
    """Without what differs from one run of the agent to the next: ids of sessions, and times."""
    text = msgspec.json.encode(value).decode()
    text = re.sub(r"ses_\w+", "ses", text)
    return msgspec.json.decode(re.sub(r'"(duration_ms|timestamp_ms|seq)":-?\d+', r'"\1":0', text))


def calls(events: list[Event]) -> list[Any]:
    """Calls of the run itself in the order of their ends, each with its operations as they are known then."""
    root = events_root(events)
    found = []
    for end in events:
        if isinstance(end, ToolEnd) and end.run_id == root:
            start = next(
                each for each in events if isinstance(each, ToolStart) and each.call_id == end.call_id
            )
            operations = start.operations if end.operations is None else end.operations
            found.append([end.tool_name, start.input, operations, end.success, end.output, end.exit_code])
    return [plain(call) for call in found]


def events_root(events: list[Event]) -> str:
    return next(event.run_id for event in events if isinstance(event, SessionStart))


def of_run(kind: type[Any], events: list[Event], run_id: str) -> list[Any]:
    return [event for event in events if isinstance(event, kind) and event.run_id == run_id]


@pytest.mark.parametrize("agent", AGENTS)
def test_both_ways_give_the_same_calls_and_operations(agent: str) -> None:
    one, two = calls(events_of(agent, "run")), calls(events_of(agent, "serve"))

    assert [call[0] for call in one] == ["read", "write", "edit", "bash", "bash", "grep", "todowrite", "task"]
    assert two == one


@pytest.mark.parametrize("agent", AGENTS)
def test_both_ways_give_the_same_messages_usage_and_tasks(agent: str) -> None:
    one, two = events_of(agent, "run"), events_of(agent, "serve")

    for kind, fields in [
        (Message, ("role", "text")),
        (UsageDelta, ("usage",)),
        (TasksChanged, ("tasks",)),
        (Result, ("success", "outcome", "text", "stop_reason")),
    ]:
        first, second = (
            [
                [getattr(event, field) for field in fields]
                for event in of_run(kind, events, events_root(events))
            ]
            for events in (one, two)
        )
        assert second == first, kind
    thoughts = [
        "".join(event.text for event in events if isinstance(event, ReasoningDelta)) for events in (one, two)
    ]
    assert thoughts == ["A look first."] * 2


@pytest.mark.parametrize("agent", AGENTS)
def test_both_ways_give_the_same_sub_agents(agent: str) -> None:
    def children(events: list[Event]) -> list[Any]:
        root = events_root(events)
        kinds = (SessionStart, Result)
        ours = [event for event in events if isinstance(event, kinds) and event.run_id != root]
        return [
            [
                type(event).__name__,
                getattr(event, "name", ""),
                getattr(event, "text", ""),
                bool(event.parent_id),
            ]
            for event in ours
        ]

    assert children(events_of(agent, "serve")) == children(events_of(agent, "run")) == [
        ["SessionStart", "general", "", True],
        ["Result", "", "Sub done.", False],
    ]  # fmt: skip


@pytest.mark.parametrize("agent", AGENTS)
def test_a_server_also_shows_what_a_sub_agent_does(agent: str) -> None:
    events = events_of(agent, "serve")
    root = events_root(events)
    [child] = [event.run_id for event in events if isinstance(event, SessionStart) and event.run_id != root]

    [end] = of_run(ToolEnd, events, child)
    assert (end.tool_name, end.output, end.exit_code) == ("bash", "sub\n", 0)
    assert [event.text for event in of_run(Message, events, child)] == ["SUB-LANE please", "Sub done."]
    assert len(of_run(UsageDelta, events, child)) == 2
    kinds = [type(event) for event in events if event.run_id == child]
    assert kinds[0] is SessionStart
    assert kinds[-1] is Result


@pytest.mark.parametrize("agent", AGENTS)
def test_the_pieces_of_a_text_give_its_whole_and_come_before_it(agent: str) -> None:
    events = events_of(agent, "serve")

    assert not [event for event in events if isinstance(event, Unknown | Warning | Error)]
    said = [event for event in events if isinstance(event, Message) and event.role == "assistant"]
    for message in said:
        pieces = [event.text for event in events if isinstance(event, TextDelta) and event.id == message.id]
        assert "".join(pieces) == message.text
    kinds = [type(event).__name__ for event in events if isinstance(event, Message | ToolStart)]
    assert kinds[:3] == ["Message", "Message", "ToolStart"]  # what was said before a call stands before it


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("cuts", [2, 7, 500])
def test_any_split_of_the_output_gives_the_same_events(agent: str, cuts: int) -> None:
    assert plain(events_of(agent, "serve", cuts)) == plain(events_of(agent, "serve"))


# Single events


def translator(**start: Any) -> Translator:
    two_way = load("opencode").two_way
    assert two_way is not None
    made = two_way.translator()
    made.begin(RawStart(at_ms=0, agent="opencode", cwd="/repo", **start))
    return made


def record(name: str, **properties: Any) -> dict[str, Any]:
    return {"event": name, "data": {"type": name, "properties": properties}}


def said(message_id: str, role: str, session_id: str = "ses_1", **more: Any) -> dict[str, Any]:
    info = {"id": message_id, "role": role, "sessionID": session_id, **more}
    return record("message.updated", sessionID=session_id, info=info)


def part(kind: str, part_id: str = "prt_1", session_id: str = "ses_1", **more: Any) -> dict[str, Any]:
    body = {"type": kind, "id": part_id, "messageID": "msg_1", "sessionID": session_id, **more}
    return record("message.part.updated", sessionID=session_id, part=body)


def read(made: Translator, *records: dict[str, Any]) -> list[Event]:
    return [event for each in records for event in made.record(each)]


OPENING = (said("msg_0", "user"), said("msg_1", "assistant"))


def test_a_later_run_of_the_same_server_begins_with_its_prompt() -> None:
    made = translator(session_id="ses_1")

    late = said("msg_x", "user", "ses_child", summary={"diffs": []})
    events = read(made, late, said("msg_9", "user", "ses_1", summary={}), *OPENING)

    assert events == [SessionStart(session_id="ses_1", agent="opencode")]


def test_answers_questions_and_news_of_the_server_are_consumed() -> None:
    made = translator()
    quiet = [
        "permission.asked",
        "question.replied",
        "session.next.step.started",
        "pty.created",
        "server.connected",
    ]

    assert read(made, *(record(name) for name in quiet), {"id": 3, "status": 204, "body": None}) == []
    assert read(made, {"id": 0, "status": 0, "error": "gone"}, record("sync")) == []


@pytest.mark.parametrize(
    "odd", [{"event": "", "data": "garbage"}, record("new.kind"), record("session.new"), {}, part("new")]
)
def test_what_is_not_known_is_shown(odd: dict[str, Any]) -> None:
    assert read(translator(), odd) == [Unknown(raw=odd)]


def test_the_user_is_not_repeated_and_a_session_is_announced_once() -> None:
    made = translator()
    created = {"id": 1, "status": 200, "body": {"id": "ses_1", "directory": "/repo"}}

    events = read(
        made, created, *OPENING, part("text", messageID="msg_0", text="go", time={"start": 1, "end": 2})
    )

    assert events == [SessionStart(session_id="ses_1", agent="opencode")]


def test_what_came_before_its_session_is_known_is_not_lost() -> None:
    made = translator()

    events = read(made, part("text", text="early", time={"end": 2}), *OPENING)

    assert [type(event) for event in events] == [SessionStart, Message]


def test_an_interrupted_turn_is_no_failure_and_its_calls_are_shown() -> None:
    made = translator()
    aborted = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
    read(made, *OPENING, part("text", text="", time={"start": 1}))
    call: dict[str, Any] = {
        "tool": "bash",
        "callID": "c",
        "state": {"status": "running", "input": {"command": "sleep 9"}},
    }
    assert read(made, part("tool", "prt_2", **call)) == []
    assert read(made, record("session.error", sessionID="ses_1", error=aborted)) == []

    [start, result] = made.finish(Ending())

    assert isinstance(start, ToolStart)
    assert result == Result(success=False, outcome="interrupted", stop_reason="aborted")


def test_an_error_and_a_retry_are_shown() -> None:
    made = translator()
    error = {"name": "APIError", "data": {"message": "no such key", "statusCode": 401}}
    read(made, *OPENING)

    retry = record(
        "session.status", sessionID="ses_1", status={"type": "retry", "message": "busy", "attempt": 1}
    )
    assert read(made, retry) == [Warning(message="busy", code="retry")]
    assert read(made, record("session.error", error=error)) == [Error(message="no such key", code="http_401")]
    assert made.finish(Ending()) == [Result(success=False, outcome="failed", stop_reason="error")]


def test_messages_that_were_missed_are_taken_from_the_answer_to_a_request() -> None:
    made = translator()
    read(made, *OPENING, part("text", "prt_1", text="one", time={"end": 1}))

    def message(number: int, role: str, text: str) -> dict[str, Any]:
        names = {"id": f"prt_{number}", "messageID": f"msg_{number}", "sessionID": "ses_1"}
        body = {"type": "text", "text": text, "time": {"end": 1}, **names}
        return {"info": {"id": f"msg_{number}", "role": role, "sessionID": "ses_1"}, "parts": [body]}

    history = [
        message(7, "user", "old"),
        message(8, "assistant", "of an earlier run"),
        message(0, "user", "go"),
    ]
    missed = [*history, message(1, "assistant", "one"), message(2, "assistant", "two")]
    events = read(made, {"id": 5, "status": 200, "body": missed})

    assert [event.text for event in events if isinstance(event, Message)] == ["two"]


def test_the_address_of_the_server_is_no_warning() -> None:
    made = translator()

    assert list(made.stderr("opencode server listening on http://127.0.0.1:4096")) == []
    assert list(made.stderr("odd")) == [Warning(message="odd", code="stderr")]
