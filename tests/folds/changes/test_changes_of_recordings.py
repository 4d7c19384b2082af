"""The files that each recorded run changed, as a golden: `PYTHONPATH=tests python
tests/folds/changes/test_changes_of_recordings.py` writes it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import recorded_runs
from harness.events import Event
from harness.folds.changes.fold import ChangedFiles, ChangeHistory
from harness.log import codec
from harness.testing.golden import Case

GOLDEN = Path(__file__).parent / "recorded_changes.json"


def events_in(case: Case) -> Iterator[Event]:
    return (codec.decode(line) for line in case.expected.read_bytes().split(b"\n") if line)


def changes_in(case: Case) -> list[dict[str, Any]]:
    totals, history = ChangedFiles(), ChangeHistory()
    for event in events_in(case):
        totals.feed(event)
        history.feed(event)
    return [
        {
            "path": file.path,
            "changes": [edit.change for edit in file.edits],
            "hasText": file.has_text,
            "added": totals.state[file.path].added if file.path in totals.state else 0,
            "removed": totals.state[file.path].removed if file.path in totals.state else 0,
        }
        for file in history.files.values()
    ]


@cache
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GOLDEN.read_text())
    return found


@recorded_runs.each(recorded_runs.CASES)
def test_a_recording_changed_these_files(case: Case) -> None:
    assert changes_in(case) == golden().get(str(case), [])


def test_most_agents_say_what_they_wrote() -> None:
    """So that a diff can be shown of the log alone; the others write with programs, or hide what they wrote."""
    silent = {
        case.split("/")[0]
        for case, files in golden().items()
        if files and not any(file["hasText"] for file in files)
    }
    said = {case.split("/")[0] for case, files in golden().items() if any(file["hasText"] for file in files)}
    assert silent - said == {"aider", "antigravity", "codex", "mini-swe-agent"}


def test_totals_continue_from_their_state() -> None:
    [case] = [case for case in recorded_runs.CASES if str(case) == "cline/3.0.65/tools_gpt"]
    events = [*events_in(case)]
    whole = ChangedFiles()
    for event in events:
        whole.feed(event)
    for cut in range(0, len(events), 7):
        first = ChangedFiles()
        for event in events[:cut]:
            first.feed(event)
        # Calls that are open at the cut are known to the tree, which is restored with it.
        second = ChangedFiles(first.state, first.tree)
        for event in events[cut:]:
            second.feed(event)
        assert (second.files, second.added, second.removed) == (whole.files, whole.added, whole.removed)


if __name__ == "__main__":
    found = {str(case): changes for case in recorded_runs.CASES if (changes := changes_in(case))}
    GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
