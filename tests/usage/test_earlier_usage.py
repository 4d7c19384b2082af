"""What the earlier runs of a session have used, for agents that state the total of the session."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.events import Event, Result, SessionStart, Usage, Warning
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.runs.process_worker import earlier_usage

THREAD = "thread"


def _record(store: FileStore, number: int, count: int, request: dict[str, Any], *more: Event) -> None:
    """A run of Codex that says it has used so much."""
    log_id = new_run_id(1_795_000_000_000 + number)
    times = {"created_ms": 1, "updated_ms": 1}
    about = Metadata(
        session_id=log_id, agent_name="codex", agent_session_id=THREAD, outcome="completed", **times
    )
    writer = store.create(about)
    start = SessionStart(seq=0, run_id=log_id, session_id=THREAD, agent="codex")
    end = Result(seq=1 + len(more), run_id=log_id, success=True, usage=Usage(input=count))
    writer.append([start, *(replace(event, run_id=log_id) for event in more), end])
    writer.close()
    store.save_metadata(about)
    head = {
        "kind": "start",
        "at_ms": 1,
        "agent": "codex",
        "version": "0.166.0",
        "argv": ["codex"],
        "cwd": "/w",
    }
    Path(store.path(log_id, ".raw")).write_text(_compact({**head, "request": request}))


def _compact(head: dict[str, Any]) -> str:
    return json.dumps(head, separators=(",", ":")) + "\n"


def _earlier(store: FileStore) -> Usage | None:
    log_id = new_run_id(1_796_000_000_000)
    store.create(Metadata(session_id=log_id, agent_name="codex", created_ms=1, updated_ms=1)).close()
    return earlier_usage(
        cast("Hub", SimpleNamespace(store=store, log_id=log_id)), "codex", THREAD, "this run"
    )


def test_runs_of_a_session_that_was_begun_here_are_all_there_is(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    _record(store, 1, 100, {"agent": "codex"})
    _record(store, 2, 50, {"agent": "codex", "resume": THREAD})
    assert _earlier(store) == Usage(input=150)


@pytest.mark.parametrize("request_", [{"resume": "another", "fork": True}, {"resume": THREAD}])
def test_what_was_used_before_the_first_run_of_harness_is_not_known(
    request_: dict[str, Any], tmp_path: Path
) -> None:
    """A copy of a session, or one that was begun without Harness: its total has what came before."""
    store = FileStore(str(tmp_path))
    _record(store, 1, 100, request_)
    assert _earlier(store) is None


def test_a_total_has_what_came_before_it(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    _record(store, 1, 100, {"resume": "another", "fork": True})
    said = Warning(seq=1, message="the whole thread", code="usage_cumulative")
    _record(store, 2, 900, {"resume": THREAD}, said)
    assert _earlier(store) == Usage(input=900)
