"""Conversations that are played again: all their messages in one process, and each question answered as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway_place import TURNS, Place, calls_of
from harness.cli.main import main
from harness.contracts.request import GatewayOptions, Request
from harness.events import Error, Event, Relay, RelayCall, RelayReply, ToolEnd
from harness.gateway.recorded import Recording
from harness.gateway.tape import joined, read_tape, tape_lines
from harness.log import codec
from harness.log.raw import RawEvent, RawExit, RawWriter, read_raw
from harness.log.stores.files import FileStore
from harness.runs.program_conversation import ProgramConversation
from harness.runs.recorded_answers import RecordedAnswers
from harness.runs.replay_request import (
    RecordedRun,
    recorded_entries,
    recorded_run,
    recorded_tape,
    replay_request,
)
from harness.runs.run import Run, start

SECOND: list[Any] = [{"call": "run", "command": "cat data.txt"}, {"text": "Done again."}]


def _asked(place: Place, *, allowed: bool) -> tuple[Run, list[Event]]:
    """A run in `ask`, whose commands a person allows or refuses."""
    request = Request(
        agent="claude",
        prompt="Go.",
        cwd=str(place.cwd),
        permissions="ask",
        on_ask="wait",
        gateway=GatewayOptions(),
    )
    run = start(request, store=place.store)
    events: list[Event] = []
    for event in run:
        events.append(event)
        if isinstance(event, Relay):
            run.reply(event.id, approved=allowed)
    return run, events


def _outputs(events: list[Event]) -> list[str | None]:
    return [event.output for event in events if isinstance(event, ToolEnd)]


COMMAND: list[Any] = [{"call": "run", "command": "touch made.txt; echo done"}, {"text": "Done."}]


@pytest.mark.parametrize("allowed", [True, False])
def test_what_a_person_refused_is_refused_in_the_replay_too(place: Place, allowed: bool) -> None:
    place.script(COMMAND)
    made = place.cwd / "made.txt"
    run, events = _asked(place, allowed=allowed)
    assert any(isinstance(event, Relay) for event in events)
    assert made.exists() == allowed
    made.unlink(missing_ok=True)
    played, again = place.replay(run)
    assert played.wait().outcome == "completed"
    assert made.exists() == allowed
    assert _outputs(again) == _outputs(events)
    assert [event.by for event in again if isinstance(event, RelayReply)] == [
        "policy"
    ]  # nobody was asked now
    assert [what for call in calls_of(again) for what in call.differs] == []


def test_after_a_fork_what_was_allowed_once_is_asked_about(place: Place) -> None:
    place.script(COMMAND)
    made = place.cwd / "made.txt"
    run, _ = _asked(place, allowed=True)
    made.unlink()
    forked, events = place.replay(run, fork_at=0)  # the same call, by a model
    assert [call.origin for call in calls_of(events)][:1] == ["provider"]
    assert forked.wait().outcome == "completed"
    assert not made.exists()


def test_what_was_refused_is_refused_when_a_tape_is_played(place: Place, tmp_path: Path) -> None:
    place.script(COMMAND)
    run, _ = _asked(place, allowed=False)
    tape = _tape(place.store, run.id, tmp_path)
    request = replay_request(tape, cwd=str(place.cwd), options=GatewayOptions())
    assert start(request, store=place.store).wait().outcome == "completed"
    assert not (place.cwd / "made.txt").exists()


def test_what_the_recording_does_not_answer_is_refused(place: Place) -> None:
    place.script(COMMAND)
    run, _ = _asked(place, allowed=True)
    (place.cwd / "made.txt").unlink()
    path = place.store.path(run.id, ".raw")
    entries = [entry for entry in read_raw(path) if not isinstance(entry, RawEvent)]
    tape = Path(path).with_suffix(".tape")
    tape.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries if _is_of_tape(entry)))
    request = replay_request(recorded_tape(str(tape)), cwd=str(place.cwd), options=GatewayOptions())
    start(request, store=place.store).wait()
    assert not (place.cwd / "made.txt").exists()


def _is_of_tape(entry: object) -> bool:
    return type(entry).__name__ in ("RawStart", "RawRequest", "RawResponse")


def _tape(store: FileStore, log_id: str, folder: Path) -> RecordedRun:
    path = folder / "a.tape"
    path.write_bytes(b"".join(tape_lines(recorded_entries(recorded_run(store, log_id)))))
    assert not read_tape(str(path)).damaged
    return recorded_tape(str(path))


def _entries(*events: Event) -> list[RawEvent]:
    return [RawEvent(at_ms=1, event=msgspec.Raw(codec.encode(event))) for event in events]


ASKED = Relay(id="r1", call_id="c1", tool_name="Bash", input={"command": "ls /work"})
ALLOWED = RelayReply(id="r1", approved=True)


def test_an_answer_is_given_once_and_to_its_own_question() -> None:
    answers = RecordedAnswers(_entries(ASKED, ALLOWED), {"/work": "/here"})
    asked = Relay(id="x", call_id="c1", tool_name="Bash", input={"command": "ls /here"})
    assert answers.answer(replace(asked, call_id="c2", input={"command": "rm -r /here"})) is None
    assert answers.answer(replace(asked, tool_name="Write")) is None
    assert answers.answer(replace(asked, kind="question")) is None
    found = answers.answer(asked)
    assert found is not None
    assert (found.id, found.approved, found.by) == (
        "x",
        True,
        "person",
    )  # some programs are told what a person says
    assert answers.answer(asked) is None


def test_a_live_model_cannot_use_the_id_of_a_call_that_was_allowed() -> None:
    answers = RecordedAnswers(_entries(ASKED, ALLOWED), {}, has_live_calls=True)
    asked = Relay(id="x", call_id="c1", tool_name="Bash", input={"command": "rm -r /work"})
    assert answers.answer(asked) is None
    assert answers.answer(replace(asked, input=ASKED.input)) is not None


def test_an_answer_for_one_call_is_none_for_that_call_and_another_one() -> None:
    """One question of Droid may be for several calls."""
    own, more = (
        RelayCall(tool="Bash", input=ASKED.input),
        RelayCall(tool="Bash", input={"command": "touch x"}),
    )
    entries = _entries(replace(ASKED, calls=[own]), ALLOWED)
    answers = RecordedAnswers(entries, {}, has_live_calls=True)
    assert answers.answer(replace(ASKED, calls=[own, more])) is None
    assert answers.answer(replace(ASKED, calls=[own])) is not None


def test_events_that_cannot_be_read_answer_nothing() -> None:
    odd = [
        RawEvent(at_ms=1, event=msgspec.Raw(data)) for data in (b"{}", b"[1]", b"nothing", b'{"type":"New"}')
    ]
    assert RecordedAnswers([*odd, *_entries(ALLOWED)], {}).answer(ASKED) is None


def _conversation(place: Place, prompts: list[str]) -> str:
    """Its messages in one log, as a session has them; its id."""
    conversation = ProgramConversation()
    first: Run | None = None
    try:
        for prompt in prompts:
            request = Request(
                agent="claude", prompt=prompt, cwd=str(place.cwd), two_way=True, gateway=GatewayOptions()
            )
            run = start(request, store=place.store, conversation=conversation)
            run.wait()
            first = first or run
            if run is not first:
                source = Path(place.store.path(run.id, ".raw"))
                source.rename(source.with_name(f"{first.id}.{run.id}.raw"))
        assert first is not None
        source = Path(place.store.path(first.id, ".raw"))
        source.rename(source.with_name(f"{first.id}.{first.id}.raw"))
        return first.id
    finally:
        conversation.close()


def test_all_messages_of_a_conversation_are_played(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.script([*TURNS, *SECOND])
    log_id = _conversation(place, ["Go.", "Again."])
    monkeypatch.setenv("HARNESS_LOG_DIRECTORY", place.store.directory)
    asked = len(place.lab.requests)
    beside = place.folder / "out.txt"
    assert main(["replay", log_id, "-f", "text", "-o", str(beside)]) == 0
    shown = capfd.readouterr()
    assert beside.read_text() == shown.out
    assert "2 messages, 5 calls" in shown.err
    assert "Played to its end: 5 of 5 calls from the recording." in shown.err
    assert "difference" not in shown.err
    assert [line for line in shown.out.splitlines() if line] == ["I look.", "Done.", "Done again."]
    assert len(place.lab.requests) == asked


def test_a_fork_in_a_later_message_plays_those_before_it(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.script([*TURNS, *SECOND])
    log_id = _conversation(place, ["Go.", "Again.", "Never."])
    monkeypatch.setenv("HARNESS_LOG_DIRECTORY", place.store.directory)
    asked = len(place.lab.requests)
    place.script([*TURNS, SECOND[0], {"text": "Another end."}])
    assert main(["replay", log_id, "-f", "text", "--at", "4", "--live"]) == 0
    shown = capfd.readouterr()
    assert "4 of 6 calls from the recording, 1 by the model" in shown.err
    assert shown.out.splitlines()[-1] == "Another end."
    assert len(place.lab.requests) == asked + 1


def test_a_conversation_that_parts_is_ended_there(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.script([*TURNS, *SECOND])
    log_id = _conversation(place, ["Go.", "Again."])
    monkeypatch.setenv("HARNESS_LOG_DIRECTORY", place.store.directory)
    assert main(["replay", log_id, "-f", "text", "--prompt", "Stop."]) == 1
    shown = capfd.readouterr()
    assert "Played until the run ended: 0 of 5 calls" in shown.err
    assert "Done" not in shown.out


def test_calls_of_all_messages_are_numbered_through_and_exported(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place.script([*TURNS, *SECOND])
    log_id = _conversation(place, ["Go.", "Again."])
    monkeypatch.setenv("HARNESS_LOG_DIRECTORY", place.store.directory)
    assert main(["sessions", "show", log_id, "--diff", "4"]) == 0
    assert "Again." in capfd.readouterr().out
    tape = _tape(place.store, log_id, tmp_path)
    assert (tape.calls, tape.prompts) == (5, ("Go.", "Again."))
    recorded = recorded_run(place.store, log_id)
    records = [list(read_raw(path)) for path in (recorded.path, *recorded.further)]
    together = Recording(joined(records))
    assert [call.content for call in together.calls] == [
        call.content for record in records for call in Recording(record).calls
    ]
    assert not together.damaged


def test_messages_that_were_not_held_in_one_process_are_said_to_be_left_out(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.script([*TURNS, *SECOND])
    first, _ = place.run()
    second, events = place.run()
    assert not any(isinstance(event, Error) for event in events)
    for run in (second, first):
        source = Path(place.store.path(run.id, ".raw"))
        source.rename(source.with_name(f"{first.id}.{run.id}.raw"))
    recorded = recorded_run(place.store, first.id)
    assert (len(recorded.prompts), recorded.unplayed) == (1, 1)
    monkeypatch.setenv("HARNESS_LOG_DIRECTORY", place.store.directory)
    assert main(["replay", first.id, "-f", "text"]) == 0
    assert "1 message of the session followed" in capfd.readouterr().err


def test_what_came_after_the_agent_was_killed_is_not_played(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on with words of its own about where it had been, and those a replay would not find."""
    place.script([*TURNS, *SECOND])
    log_id = _conversation(place, ["Go.", "Again."])
    path = recorded_run(place.store, log_id).path
    entries = [replace(entry, lost=True) if isinstance(entry, RawExit) else entry for entry in read_raw(path)]
    Path(path).unlink()
    writer = RawWriter(path)
    for entry in entries:
        writer.write(entry)
    writer.close()
    recorded = recorded_run(place.store, log_id)
    assert (recorded.prompts, recorded.unplayed) == (("Go.",), 1)
    monkeypatch.setenv("HARNESS_LOG_DIRECTORY", place.store.directory)
    assert main(["replay", log_id, "-f", "text"]) == 0
    shown = capfd.readouterr().err
    assert "Played to its end: 3 of 3 calls from the recording." in shown
    assert "came after the agent was killed" in shown
