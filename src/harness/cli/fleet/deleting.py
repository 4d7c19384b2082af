"""`harness fleet delete`: a fleet's folder, workspaces and records. The sessions of its runs stay."""

from __future__ import annotations

import argparse
import os
import sys

from harness.cli.console import Console, is_terminal
from harness.errors import UsageError
from harness.fleet.fleet import Fleet
from harness.fleet.workspace import remove


def delete_fleet(fleet: Fleet, arguments: argparse.Namespace, console: Console) -> int:
    """Raises UsageError, LogLocked where a process runs it."""
    fleet.open_log().close()  # nobody else has it
    results = len(fleet.records.results())
    if not arguments.yes:
        if not is_terminal(0):
            raise UsageError("there is no terminal to ask on", hint="--yes deletes without asking")
        console.put(f"Delete the fleet {fleet.name} with {results} results, in {fleet.directory}? [y/N] ")
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            console.say("Nothing was deleted.")
            return 1
    fleet.records.delete()
    remove(os.path.dirname(fleet.workspace("-")))
    remove(fleet.directory)
    console.say(
        f"deleted the fleet {fleet.name}; the sessions of its runs stay: harness sessions list --tag fleet={fleet.name}"
    )
    return 0
