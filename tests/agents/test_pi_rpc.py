"""Pi two-way: recorded conversations held again, what they come to as events, and rules one by one."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agents.pi.agent import AGENT, rpc_command
from harness.agents.pi.driver import GATE, QUESTION, PiRpc
from harness.contracts.driver import (
    Asked,
    Move,
    Notice,
    NotTaken,
    Prompt,
    Send,
    SessionKnown,
    Taken,
    TurnEnded,
    TurnStarted,
    Withdrawn,
)
from harness.contracts.model import Attachment
from harness.contracts.request import Request
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    RelayReply,
    Result,
    SessionStart,
    ToolEnd,
    Unknown,
    Warning,
)
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline

FOLDER = Path(__file__).parents[1] / "recordings" / "two-way" / "pi-rpc" / "1.5.0"
NAMES = sorted(path.name.removesuffix(".bidi.jsonl.gz") for path in FOLDER.glob("*.bidi.jsonl.gz"))
GATED = {"approvals", "two-approvals", "question", "tour"} | {name for name in NAMES if "approval" in name}


def recorded(name: str) -> list[dict[str, Any]]:
    lines = gzip.decompress((FOLDER / f"{name}.gz").read_bytes()).splitlines()
    return [msgspec.json.decode(line) for line in lines]


def driver(**more: Any) -> PiRpc:
    return PiRpc(Request(agent="pi", **more), "L1")


class Player:
    """Holds a recorded conversation again: the program's side is read to the driver, ours is done by calling it."""

    def __init__(self, name: str) -> None:
        self.driver = driver(permissions="ask" if name in GATED else "full-access")
        self.entries = [entry for entry in recorded(f"{name}.bidi.jsonl") if entry["dir"] in ("in", "out")]
        self.moves: list[Move] = list(self.driver.begin())
        self.prompts = 0

    def play(self) -> None:
        expected = 0
        for entry in self.entries:
            message = entry["msg"]
            if entry["dir"] == "out":
                self.moves += self.driver.receive(message)
                continue
            expected += 1
            if len(self.sent) < expected:
                self._do(message)
            assert self.sent[expected - 1] == message
        assert len(self.sent) == expected

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(move.data) for move in self.moves if isinstance(move, Send)]

    def _do(self, message: dict[str, Any]) -> None:
        """What led to this line, if the driver has not written it by itself."""
        match message["type"]:
            case "prompt" | "get_state":
                self.moves += self.driver.prompt(
                    self._prompt(message if "message" in message else self._next())
                )
            case "steer":
                self.moves += self.driver.steer(self._prompt(message)) or ()
            case "clear_queue":
                self.moves += [*self.driver.interrupt(), *self.driver.cancel_all()]
            case "set_model":
                self.moves += self.driver.configure(model=f"{message['provider']}/{message['modelId']}") or ()
            case "extension_ui_response":
                [relay_id] = [id for id, native in self.driver.open.items() if native.id == message["id"]]
                reply = msgspec.json.decode(message["value"])
                self.moves += self.driver.answer(RelayReply(id=relay_id, **reply)) or ()

    def _next(self) -> dict[str, Any]:
        """The prompt that was held back behind a `get_state` or a switch of the model."""
        ours = [entry["msg"] for entry in self.entries if entry["dir"] == "in"]
        return next(message for message in ours[len(self.sent) :] if message["type"] == "prompt")

    def _prompt(self, message: dict[str, Any]) -> Prompt:
        self.prompts += 1
        images = tuple(Attachment(one["mimeType"], one["data"]) for one in message.get("images", ()))
        return Prompt(id=f"p{self.prompts}", text=message["message"], attachments=images)

    def of(self, kind: type[Any]) -> list[Any]:
        return [move for move in self.moves if isinstance(move, kind)]


class HeldPromptPlayer(Player):
    """The first prompt is given before the handshake is done, and one after a switch before that is done."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.moves += self.driver.prompt(self._prompt(self._next()))

    def _do(self, message: dict[str, Any]) -> None:
        super()._do(message)
        if message["type"] == "set_model" and message["modelId"] == "none":
            self.moves += self.driver.prompt(self._prompt(self._next()))


OUTCOMES = {
    "error-401": ["failed", "failed"],
    "interrupt-in-text": ["interrupted", "completed"],
    "interrupt-in-tool": ["interrupted", "completed"],
    "interrupt-queued": ["interrupted", "completed"],
    "interrupt-while-approval": ["interrupted", "completed"],
    "kill-while-approval": [],
    "hello": ["completed", "completed"],
    "model": ["completed", "completed"],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_conversation_is_held_again_with_the_same_lines(name: str) -> None:
    player = HeldPromptPlayer(name)

    player.play()

    assert [move.outcome for move in player.of(TurnEnded)] == OUTCOMES.get(name, ["completed"])
    assert [bool(move.session_id) for move in player.of(SessionKnown)] == [True]
    assert len(player.of(Asked)) == sum(
        "harness:" in str(entry["msg"].get("title")) for entry in player.entries
    )
    assert len(player.of(Taken)) == len([one for one in player.sent if one["type"] == "steer"])
    assert not player.driver.is_busy or name == "kill-while-approval"


def turns_of(name: str) -> Iterator[list[Event]]:
    """The events of every turn, each translated by itself as a run is."""
    lines: list[bytes] = []
    for entry in Player(name).entries:
        if entry["dir"] == "in":
            continue
        lines.append(msgspec.json.encode(entry["msg"]) + b"\n")
        if entry["msg"].get("type") == "agent_settled":
            yield translated(lines)
            lines = []


def translated(lines: list[bytes], *, is_two_way: bool = True) -> list[Event]:
    assert AGENT.two_way is not None
    pipeline = Pipeline(AGENT.two_way.translator() if is_two_way else AGENT.translator())
    events = [*pipeline.feed(RawStart(at_ms=0, agent="pi", cwd="/workspace", prompt="Do the tour."))]
    for line in lines:
        events += pipeline.feed(RawOutput(at_ms=1, stream="stdout", data=line))
    events += pipeline.feed(RawExit(at_ms=2, code=0))
    assert not pipeline.lost
    return events


@pytest.mark.parametrize("name", [name for name in NAMES if name != "kill-while-approval"])
def test_every_turn_is_a_run_with_its_own_session_usage_and_result(name: str) -> None:
    runs = list(turns_of(name))

    assert [run[-1].outcome for run in runs if isinstance(run[-1], Result)] == OUTCOMES.get(
        name, ["completed"]
    )
    for events in runs:
        assert not [event for event in events if isinstance(event, Unknown | Warning)]
        [start] = [event for event in events if isinstance(event, SessionStart)]
        assert start.session_id
        texts = [event.text for event in events if isinstance(event, Message) and event.role == "user"]
        assert texts == ["Do the tour."]
        result = events[-1]
        assert isinstance(result, Result)
        if result.outcome == "completed":
            answers = [event for event in events if isinstance(event, Message) and event.role == "assistant"]
            calls = [event for event in events if isinstance(event, ToolEnd)]
            assert result.text == answers[-1].text
            assert result.usage is not None
            assert result.usage.output
            assert result.turns == (1 if not calls else result.turns)
        if result.outcome == "interrupted":
            assert not [event for event in events if isinstance(event, Error)]


def without_stamps(event: Event) -> dict[str, Any]:
    """What an event says, without times and ids that differ between any two runs."""
    said: dict[str, Any] = msgspec.to_builtins(event)
    for name in ("timestamp_ms", "run_id", "session_id", "duration_ms", "id", "raw"):
        said.pop(name, None)
    if said.get("usage"):
        said["usage"].pop("duration_ms", None)
    return said


def test_two_ways_of_running_the_same_scenario_give_the_same_events() -> None:
    one_way = translated(
        [msgspec.json.encode(record) + b"\n" for record in recorded("tour.one-way.jsonl")], is_two_way=False
    )
    [two_way] = turns_of("tour")

    assert [without_stamps(event) for event in two_way] == [without_stamps(event) for event in one_way]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(agent="pi"), ()),
        (Request(agent="pi", permissions="agent-default"), ()),
        (Request(agent="pi", permissions="ask"), ("--extension", GATE)),
        (
            Request(agent="pi", permissions="read-only"),
            ("--extension", GATE, "--tools", "read,grep,find,ls,ask_user"),
        ),
        (Request(agent="pi", resume="abc", model="lab/x"), ("--model", "lab/x", "--session", "abc")),
        (Request(agent="pi", session_id="abc"), ("--session-id", "abc")),
        (Request(agent="pi", extra_args=("--thinking", "high")), ("--thinking", "high")),
    ],
)
def test_a_request_becomes_arguments_and_the_prompt_is_none_of_them(
    request_: Request, expected: tuple[str, ...]
) -> None:
    made = rpc_command(msgspec.structs.replace(request_, prompt="- über @this"), ())

    assert made.args == ("--mode", "rpc", "--extension", QUESTION, *expected)
    assert made.stdin is None


def test_the_extensions_lie_beside_the_driver() -> None:
    assert Path(GATE).is_file()
    assert Path(QUESTION).is_file()


STATE = {"type": "response", "command": "get_state", "success": True, "data": {"sessionId": "s-1"}}
STARTED = {"type": "response", "command": "prompt", "success": True, "data": {"disposition": "started"}}
SETTLED = {"type": "agent_settled", "aborted": False}
HELLO = Prompt(id="1", text="hello")


def ready(**more: Any) -> PiRpc:
    machine = driver(**more)
    machine.begin()
    machine.receive({"type": "extension_ui_request", "method": "setStatus", "statusKey": "harness:gate"})
    machine.receive(STATE)
    return machine


def sent(moves: Any) -> list[dict[str, Any]]:
    return [msgspec.json.decode(move.data) for move in moves if isinstance(move, Send)]


def test_nothing_is_sent_to_a_program_whose_gate_did_not_load() -> None:
    machine = driver(permissions="ask")
    machine.begin()
    machine.prompt(HELLO)

    *_, ended = machine.receive(STATE)

    assert isinstance(ended, TurnEnded)
    assert (ended.outcome, ended.is_final) == ("failed", True)
    assert not sent(machine.prompt(HELLO))


def test_a_prompt_that_is_refused_has_failed_with_the_reason() -> None:
    machine = ready()
    [command] = sent(machine.prompt(HELLO))

    moves = machine.receive({**STARTED, "id": command["id"], "success": False, "error": "no model"})

    assert moves == [TurnEnded("failed", "no model")]


def test_a_prompt_that_an_extension_takes_has_no_further_end() -> None:
    machine = ready()
    [command] = sent(machine.prompt(HELLO))

    assert machine.receive({**STARTED, "id": command["id"], "data": {"disposition": "handled"}}) == [
        TurnEnded("completed")
    ]


def test_a_steering_text_that_is_expanded_is_known_by_what_is_queued() -> None:
    machine = ready()
    machine.prompt(HELLO)
    moves = machine.steer(Prompt(id="2", text="/template"))
    assert moves is not None
    [command] = sent(moves)
    machine.receive({"type": "queue_update", "steering": ["other", "the whole text"]})
    machine.receive(
        {**STARTED, "id": command["id"], "command": "steer", "data": {"disposition": "queued"}},
    )

    def user(text: str) -> Any:
        return machine.receive({"type": "message_end", "message": {"role": "user", "content": text}})

    assert not user("other")
    assert user("the whole text") == [Taken("2")]
    assert not user("the whole text")


def test_a_steering_text_that_is_not_taken_is_removed_from_the_queue_of_the_program() -> None:
    machine = ready()
    machine.prompt(HELLO)
    machine.steer(Prompt(id="2", text="too late"))

    moves = machine.receive(SETTLED)

    assert moves[0] == NotTaken("2")
    assert [one["type"] for one in sent(moves)] == ["clear_queue"]
    assert moves[-1] == TurnEnded("completed")
    assert machine.steer(HELLO) is None


def test_a_steering_text_that_is_refused_is_not_taken() -> None:
    machine = ready()
    machine.prompt(HELLO)
    [command] = sent(machine.steer(Prompt(id="2", text="/extension")) or ())

    assert machine.receive(
        {"type": "response", "id": command["id"], "command": "steer", "success": False}
    ) == [NotTaken("2")]


def test_an_interrupt_before_the_handshake_ends_the_turn_that_was_never_started() -> None:
    machine = driver()
    machine.begin()
    machine.prompt(HELLO)

    assert machine.interrupt() == [TurnEnded("interrupted")]
    assert not sent(machine.receive(STATE))
    assert not machine.interrupt()


def test_a_turn_that_was_interrupted_while_it_was_prepared_is_interrupted_again_when_it_begins() -> None:
    machine = ready()
    machine.prompt(HELLO)
    machine.interrupt()

    assert [one["type"] for one in sent(machine.receive({"type": "agent_start"}))] == ["abort"]


def test_a_turn_that_the_program_begins_by_itself_is_reported() -> None:
    machine = ready()

    moves = machine.receive({"type": "agent_start"})

    assert moves[0] == TurnStarted()
    assert machine.is_busy
    assert machine.receive(SETTLED) == [TurnEnded("completed")]


def dialog(**more: Any) -> dict[str, Any]:
    return {"type": "extension_ui_request", "id": 0, "title": "Sure?", **more}


@pytest.mark.parametrize(
    ("asked", "reply", "expected"),
    [
        (dialog(method="confirm"), {"approved": True}, {"confirmed": True}),
        (dialog(method="confirm"), {"approved": False}, {"confirmed": False}),
        (dialog(method="select", options=["A", "B"]), {"approved": True, "answer": "B"}, {"value": "B"}),
        (dialog(method="input"), {"approved": True, "answer": {"answer": "x"}}, {"value": "x"}),
        (dialog(method="editor"), {"approved": True}, {"cancelled": True}),
        (dialog(method="input"), {"approved": False, "reason": "no"}, {"cancelled": True}),
    ],
)
def test_dialogs_of_other_extensions_are_answered_in_their_way(
    asked: dict[str, Any], reply: dict[str, Any], expected: dict[str, Any]
) -> None:
    machine = ready()
    [move] = machine.receive(asked)
    assert isinstance(move, Asked)

    moves = machine.answer(RelayReply(id=move.relay.id, **reply))

    assert sent(moves) == [{"type": "extension_ui_response", "id": 0, **expected}]
    assert machine.answer(RelayReply(id=move.relay.id, approved=True)) is None


def test_a_dialog_of_an_unknown_kind_is_cancelled() -> None:
    assert sent(ready().receive(dialog(method="hologram"))) == [
        {"type": "extension_ui_response", "id": 0, "cancelled": True}
    ]


def test_questions_that_are_open_at_the_end_are_withdrawn() -> None:
    machine = ready(permissions="ask")
    machine.prompt(HELLO)
    [move] = machine.receive(dialog(method="input", title='harness:permission {"call":"c1","tool":"bash"}'))
    assert isinstance(move, Asked)

    assert machine.receive({"type": "tool_execution_end", "toolCallId": "c1"}) == [Withdrawn(move.relay.id)]
    [other] = machine.receive(dialog(method="input"))
    assert isinstance(other, Asked)
    assert machine.receive(SETTLED)[0] == Withdrawn(other.relay.id)


def test_a_document_is_left_out_with_a_warning() -> None:
    files = (Attachment("application/pdf", "AAAA", "b.pdf"), Attachment("image/png", "BBBB"))

    notice, command = ready().prompt(Prompt(id="1", text="look", attachments=files))

    assert isinstance(notice, Notice)
    assert "b.pdf" in notice.event.message
    assert sent([command])[0]["images"] == [{"type": "image", "data": "BBBB", "mimeType": "image/png"}]


def test_a_model_without_a_provider_is_one_of_the_current_provider() -> None:
    machine = driver()
    assert machine.configure(model="large") is None
    machine.receive({**STATE, "data": {"sessionId": "s-1", "model": {"provider": "lab"}}})

    assert sent(machine.configure(model="large"))[0] == {
        "id": "L1-1", "type": "set_model", "provider": "lab", "modelId": "large",
    }  # fmt: skip
    assert machine.configure(model="large") == []
    assert machine.configure(mode="plan") is None


def test_what_extensions_say_and_how_they_fail_is_in_the_log() -> None:
    said = {"type": "extension_ui_request", "id": "1", "method": "notify", "message": "Hi."}
    failed = {"type": "extension_error", "extensionPath": "/x.ts", "error": "boom"}

    events = translated([msgspec.json.encode(record) + b"\n" for record in (STATE, said, failed, dialog())])

    assert [event.message for event in events if isinstance(event, Info)] == ["Hi."]
    assert "boom" in next(event.message for event in events if isinstance(event, Warning))
    assert [event.raw for event in events if isinstance(event, Unknown)] == [dialog()]


KINDS = [entry["msg"] for name in NAMES for entry in Player(name).entries if entry["dir"] == "out"]
KNOWN = sorted({key for record in KINDS for key in record})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "L1-1", "L1-2", "get_state", "prompt", "steer"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KNOWN), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
ODD = st.builds(
    lambda record, changes: {**record, **changes},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(KNOWN), VALUES, max_size=3),
)


@settings(max_examples=300, deadline=None)
@given(records=st.lists(ODD, max_size=8), approved=st.booleans())
def test_no_record_however_odd_raises_and_what_is_written_is_whole_lines(
    records: list[dict[str, Any]], approved: bool
) -> None:
    machine = ready(permissions="ask")
    moves: list[Move] = [*machine.prompt(HELLO), *(machine.steer(Prompt(id="2", text="more")) or ())]
    for record in records:
        moves += machine.receive(record)
        for relay_id in list(machine.open):
            moves += machine.answer(RelayReply(id=relay_id, approved=approved, answer="x")) or ()
    moves += [*machine.interrupt(), *machine.cancel_all()]
    translated([msgspec.json.encode(record) + b"\n" for record in records])

    for move in moves:
        if isinstance(move, Send):
            assert move.data.endswith(b"\n")
            assert move.data.count(b"\n") == 1
            assert isinstance(msgspec.json.decode(move.data), dict)
