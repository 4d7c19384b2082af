"""The model calls of a session that were recorded by a gateway: one of them as text, and all as a tape."""

from __future__ import annotations

import sys

from harness.cli.output import write_text
from harness.clients.sessions.model_calls import call_lines
from harness.formatting.escapes import revealed
from harness.gateway.tape import tape_lines
from harness.log.stores.files import FileStore
from harness.runs.replay_request import recorded_entries, recorded_run


def export(store: FileStore, log_id: str) -> int:
    """Write a session's calls to standard output as a tape. Raises UsageError where there are none."""
    recording = recorded_run(store, log_id)
    for line in tape_lines(recorded_entries(recording)):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    return 0


def show(store: FileStore, log_id: str, number: int, *, only_new: bool) -> int:
    """Raises UsageError for a call that there is none of."""
    lines = call_lines(store, log_id, number, only_new=only_new)
    write_text(revealed("\n".join(lines) + "\n"))
    return 0
