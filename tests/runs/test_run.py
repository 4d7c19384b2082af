"""Runs end to end: outcomes, limits, cancelling, secrets, and what is kept of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness import FileStore, Limits, MemoryStore, Request, Run, run, start
from harness.errors import InvalidDirectory, UnknownAgent, UsageError
from harness.events import Error, Event, Result, SessionStart, Warning
from harness.log import codec
from harness.log.raw import RawOutput, read_raw
from harness.log.store import read_all
from harness.runs.audit import check, recover
from harness.runs.launch import prepare
from harness.runs.recorder import Recorder

RECORDINGS = Path(__file__).parents[1] / "agents"
CLAUDE = RECORDINGS / "claude" / "2.1.325"
END = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path / "sessions"))


def recording(folder: Path, lines: list[Any], times_ms: list[int] | None = None, **meta: Any) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "stdout.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    facts = {"agent": "claude", "prompt": "do it", "line_times_ms": times_ms or [], "exit_code": 0, **meta}
    (folder / "meta.json").write_text(json.dumps(facts))
    return str(path)


def replayed(
    path: str, store: FileStore | None = None, limits: Limits | None = None, redact: bool = True
) -> Run:
    pace = ("--fast",) if path.startswith(str(RECORDINGS)) else ()
    request = Request(agent="replay", recording=path, limits=limits or Limits(), extra_args=pace)
    return start(request, store=store or MemoryStore(), redact=redact)


def result_of(events: list[Event]) -> Result:
    assert isinstance(events[-1], Result)
    assert sum(isinstance(event, Result) and event.run_id == events[-1].run_id for event in events) == 1
    return events[-1]


def codes(events: list[Event], kind: type[Error | Warning] = Error) -> list[str]:
    return [event.code for event in events if isinstance(event, kind)]


def test_a_run_is_recorded_and_proved(store: FileStore) -> None:
    live = replayed(str(CLAUDE / "subagent" / "stdout.jsonl"), store)
    events = list(live)

    assert result_of(events).outcome == "completed"
    assert list(read_all(store, live.id)) == events
    assert check(store, live.id).problems == []
    metadata = store.metadata(live.id)
    assert (metadata.outcome, metadata.success, metadata.prompt) == ("completed", True, "do the task")
    assert metadata.agent_session_id == next(e.session_id for e in events if isinstance(e, SessionStart))


def test_a_sub_agent_that_is_named_by_its_own_session_is_proved_too(store: FileStore) -> None:
    live = replayed(str(RECORDINGS / "codex" / "0.166.0" / "subagent" / "stdout.jsonl"), store)
    events = list(live)

    [child] = [event for event in events if isinstance(event, SessionStart) and event.run_id != live.id]
    assert child.session_id not in ("", child.run_id)
    assert check(store, live.id).problems == []


def test_with_redaction_off_the_kept_bytes_are_those_of_the_agent(store: FileStore) -> None:
    path = CLAUDE / "unicode" / "stdout.jsonl"
    live = replayed(str(path), store, redact=False)
    live.wait()

    kept = b"".join(
        e.data
        for e in read_raw(store.path(live.id, ".raw"))
        if isinstance(e, RawOutput) and e.stream == "stdout"
    )
    assert hashlib.sha256(kept).digest() == hashlib.sha256(path.read_bytes()).digest()


def test_following_late_gives_the_same_events(store: FileStore) -> None:
    live = replayed(str(CLAUDE / "shell" / "stdout.jsonl"), store)
    first = list(live)

    assert list(live) == first
    assert [event for batch in live.batches(5) for event in batch] == first[5:]
    assert live.wait() == first[-1]


def test_asyncio_follows_too(tmp_path: Path) -> None:
    path = recording(tmp_path / "r", [{"type": "x"}, END], [0, 50])

    async def follow() -> list[Event]:
        live = await run(agent="replay", prompt="", recording=path, store=MemoryStore())
        return [event async for event in live.events()]

    assert result_of(asyncio.run(follow())).text == "done"


@pytest.mark.parametrize(
    ("limits", "outcome", "code"),
    [
        (Limits(timeout_s=0.3), "timed_out", "timeout"),
        (Limits(inactivity_s=0.3), "stalled", "stalled"),
    ],
    ids=["timeout", "inactivity"],
)
def test_each_limit_ends_as_its_own_outcome(limits: Limits, outcome: str, code: str, tmp_path: Path) -> None:
    path = recording(
        tmp_path / "r", [{"type": "system", "subtype": "init", "session_id": "s"}, END], [0, 60_000]
    )

    events = list(replayed(path, limits=limits))

    assert result_of(events).outcome == outcome
    assert codes(events) == [code]


def test_an_agent_that_says_nothing_is_stalled(tmp_path: Path) -> None:
    path = recording(tmp_path / "r", [END], [60_000])

    events = list(replayed(path, limits=Limits(first_output_s=0.3)))

    assert result_of(events).outcome == "stalled"


def test_turns_and_money_are_watched_where_the_agent_does_not(tmp_path: Path) -> None:
    say = {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "one"}]}}
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/x"}}
    use = {"type": "assistant", "message": {"id": "m1", "content": [call]}}
    got = {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "y"}]},
    }
    again = {"type": "assistant", "message": {"id": "m2", "content": [{"type": "text", "text": "two"}]}}
    path = recording(tmp_path / "r", [say, use, got, again, END], [0, 10, 20, 30, 60_000])

    events = list(replayed(path, limits=Limits(max_turns=1)))

    assert result_of(events).outcome == "limit_exceeded"
    assert codes(events) == ["max_turns"]


def test_cancelling_interrupts_and_still_ends_with_a_result(tmp_path: Path) -> None:
    path = recording(
        tmp_path / "r", [{"type": "system", "subtype": "init", "session_id": "s"}, END], [0, 60_000]
    )
    live = replayed(path)
    events: list[Event] = []
    for event in live:
        events.append(event)
        if isinstance(event, SessionStart):
            live.cancel()

    assert result_of(events).outcome == "interrupted"


def test_cancelling_before_the_agent_is_up_works(tmp_path: Path) -> None:
    path = recording(tmp_path / "r", [{"type": "x"}, END], [0, 60_000])
    live = replayed(path)
    live.cancel()

    assert live.wait().outcome == "interrupted"


def test_a_program_that_is_not_there_is_an_outcome(store: FileStore) -> None:
    live = start(Request(agent="claude", prompt="hi", binary="/nowhere/claude"), store=store)
    events = list(live)

    assert result_of(events).outcome == "agent_not_found"
    assert codes(events) == ["agent_not_found"]
    assert store.metadata(live.id).outcome == "agent_not_found"


def test_a_program_that_does_not_start_is_an_outcome(tmp_path: Path) -> None:
    broken = tmp_path / "claude"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)

    events = list(start(Request(agent="claude", prompt="hi", binary=str(broken)), store=MemoryStore()))

    assert result_of(events).outcome == "spawn_failed"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Request(agent="nobody", prompt="x"), UnknownAgent),
        (Request(agent="claude", prompt="  \n"), UsageError),
        (Request(agent="claude", prompt="x", cwd="/nowhere/at/all"), InvalidDirectory),
        (Request(agent="claude", prompt="x", cwd="/dev/null"), InvalidDirectory),
        (Request(agent="replay", recording="/nowhere.jsonl"), UsageError),
    ],
    ids=["agent", "prompt", "cwd", "cwd is a file", "recording"],
)
def test_a_mistake_of_the_caller_is_an_exception(request_: Request, error: type[Exception]) -> None:
    with pytest.raises(error):
        start(request_, store=MemoryStore())


def test_a_run_that_cannot_be_recorded_is_still_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    path = recording(tmp_path / "r", [END])

    events = list(replayed(path, FileStore(str(tmp_path / "file" / "sessions"))))

    assert "not_recorded" in codes(events, Warning)
    assert result_of(events).success


@pytest.mark.parametrize("lost", [".ndjson", ".meta.json", ".raw", "everything"])
def test_a_session_deleted_under_a_run_does_not_break_it(store: FileStore, lost: str, tmp_path: Path) -> None:
    path = recording(
        tmp_path / "r", [{"type": "system", "subtype": "init", "session_id": "s"}, END], [0, 300]
    )
    run_ = replayed(path, store)
    next(iter(run_))
    for file in Path(store.directory).iterdir():
        if lost in (file.name[36:], "everything"):
            file.unlink()

    assert result_of(list(run_)).success
    assert run_.wait().success


def test_a_disk_that_fills_up_at_the_end_does_not_break_a_run(store: FileStore, tmp_path: Path) -> None:
    path = recording(
        tmp_path / "r", [{"type": "system", "subtype": "init", "session_id": "s"}, END], [0, 300]
    )
    run_ = replayed(path, store)
    next(iter(run_))
    sidecar = Path(store.path(run_.id, ".meta.json"))
    sidecar.unlink()
    sidecar.mkdir()  # stands for a disk that takes no new file: replacing it is refused

    assert run_.wait().success
    sidecar.rmdir()
    assert sorted(file.name[36:] for file in Path(store.directory).iterdir()) == [".ndjson", ".raw"]
    assert recover(store, run_.id)
    assert store.metadata(run_.id).outcome == "completed"


def test_secrets_reach_neither_disk_nor_reader(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "wJalrXUtnFEMI-K7MDENG-planted"
    monkeypatch.setenv("DEPLOY_API_KEY", secret)
    block = {"type": "text", "text": f"the key is {secret}."}
    lines: list[Any] = [
        {"type": "assistant", "message": {"id": "m", "content": [block]}},
        f"loose {secret} text",
        END,
    ]
    path = recording(tmp_path / "r", lines, prompt=f"use {secret}")
    (tmp_path / "r" / "stderr.txt").write_text(f"warning: {secret}\n")

    live = replayed(path, store)
    shown = repr(list(live))

    assert secret not in shown
    assert "[REDACTED:DEPLOY_API_KEY]" in shown
    for name in os.listdir(store.directory):
        assert secret not in (Path(store.directory) / name).read_text(), name
    assert check(store, live.id).problems == []


def test_what_waited_for_a_full_disk_is_kept(tmp_path: Path) -> None:
    """The limit on file size stands for the disk."""
    path = str(tmp_path / "x.raw")
    recorder = Recorder(prepare(Request(agent="claude", prompt="do it")), redact=True)
    recorder.open(path)
    entries = [RawOutput(at_ms=n, stream="stdout", data=f"line {n}\n".encode() * 50) for n in range(9)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        for entry in entries[:5]:
            recorder.write(entry)
        refused = list(read_raw(path))
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        recorder.write(entries[5])
        accepted = list(read_raw(path))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        for entry in entries[6:]:
            recorder.write(entry)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    recorder.close()

    assert recorder.failure is not None
    assert refused == entries[:2]
    assert accepted == entries[:6]
    assert list(read_raw(path)) == entries


def test_a_log_that_waited_for_a_full_disk_is_proved_all_the_same(store: FileStore, tmp_path: Path) -> None:
    run_ = replayed(recording(tmp_path / "r", [END]), store)
    run_.wait()
    start_, *rest = read_all(store, run_.id)
    warning = Warning(message="the log is incomplete from seq 1 on", code="log_incomplete", run_id=run_.id)
    events = [replace(event, seq=seq) for seq, event in enumerate([start_, warning, *rest])]
    Path(store.path(run_.id)).write_bytes(codec.encode_lines(events))

    assert check(store, run_.id).problems == []


def test_nothing_that_was_asked_brings_a_secret_to_disk(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "zq8Kd02mXlq9vTr4"
    monkeypatch.setenv("DEPLOY_TOKEN", secret)
    path = recording(tmp_path / "r", [END], prompt="")
    start(
        Request(
            agent="replay",
            recording=path,
            prompt=f"use {secret}",
            extra_args=("--fast", f"--key={secret}"),
            name=f"with {secret}",
            tags=(secret,),
        ),
        store=store,
    ).wait()

    kept = b"".join(file.read_bytes() for file in Path(store.directory).iterdir())
    assert secret.encode() not in kept
    assert kept.count(b"[REDACTED:DEPLOY_TOKEN]") >= 6


def test_a_secret_cut_over_deltas_is_masked_within_the_deadline(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "wJalrXUtnFEMIK7MDENGplanted"
    monkeypatch.setenv("DEPLOY_API_KEY", secret)

    def delta(text: str) -> dict[str, Any]:
        piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        return {"type": "stream_event", "event": piece}

    pieces = [delta(text) for text in ("key ", secret[:9], secret[9:18], secret[18:], " end")]
    path = recording(tmp_path / "r", [*pieces, END], [0, 20, 40, 60, 80, 100])

    live = replayed(path, store)
    shown = "".join(event.text for event in live if hasattr(event, "text") and not isinstance(event, Result))

    assert secret not in shown.replace("\n", "")
    assert secret[:12] not in Path(store.path(live.id, ".raw")).read_text()


def test_many_runs_at_once_keep_apart(store: FileStore) -> None:
    names = ["hello", "read", "shell", "subagent"]
    runs = [replayed(str(CLAUDE / name / "stdout.jsonl"), store) for name in names]
    done: dict[str, Result] = {}
    threads = [
        threading.Thread(target=lambda live=live: done.update({live.id: live.wait()})) for live in runs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert {live.id for live in runs} == set(done)
    assert all(check(store, live.id).problems == [] for live in runs)


def test_the_first_event_comes_while_the_agent_still_runs(tmp_path: Path) -> None:
    path = recording(
        tmp_path / "r", [{"type": "system", "subtype": "init", "session_id": "s"}, END], [0, 1500]
    )
    began = time.monotonic()

    live = replayed(path)
    first = next(iter(live))

    assert isinstance(first, SessionStart)
    assert time.monotonic() - began < 1.5
    live.cancel()
    live.wait()


def test_what_cannot_be_asked_leaves_no_session(store: FileStore) -> None:
    with pytest.raises(UsageError, match="no runner was named"):
        start(Request(agent="remote", prompt="hello"), store=store)

    assert list(store.list()) == []
