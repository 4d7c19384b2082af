"""What an agent does not say about its session: the session's id, and what its earlier runs have used.

The id comes from the agent's own store, which is only read. A session there is taken for that of the run if
it alone was written since the run began, in the same directory, for the same prompt.

The usage comes from our logs of the earlier runs: agents that count whole sessions need it taken off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from harness.errors import HarnessError
from harness.events import Event, Result, SessionStart, Usage, Warning
from harness.log.hub import Hub
from harness.log.store import read_all
from harness.sources.agent import SessionFiles
from harness.sources.formats.command_line import argument_of
from harness.sources.process.launch import Launch
from harness.sources.translation.json_lines import DECODE_ERRORS

_VARIABLE = re.compile(r"\$(\w+)")
_LARGEST_BYTES = 4 * 1024 * 1024
_CLOCKS_DIFFER_MS = 2000
"""A file system may note the time of a file less exactly than the clock."""


def find_session(launch: Launch, started_ms: int, pid: int) -> str:
    """The session's id; empty where the agent reports it itself, and unless exactly one session fits."""
    files = launch.agent.session_files
    if files is None:
        return ""
    found = [
        record
        for record in _written_since(_folder(files, launch), started_ms - _CLOCKS_DIFFER_MS)
        if _fits(record, files, launch)
    ]
    own = [record for record in found if record.get(files.pid) == pid] or found
    session_id = own[0].get(files.id) if len(own) == 1 else ""
    return session_id if isinstance(session_id, str) else ""


def _folder(files: SessionFiles, launch: Launch) -> str:
    env = launch.invocation.env
    if files.option and (named := argument_of(launch.invocation.argv, files.option)):
        return os.path.join(launch.invocation.cwd, named, "sessions")
    folders = (_expanded(folder, env) for folder in files.folders)
    return next((folder for folder in folders if folder and os.path.isdir(folder)), "")


def _expanded(folder: str, env: Mapping[str, str]) -> str:
    """With the agent's variables; empty when it has not all of them."""
    if any(not env.get(name) for name in _VARIABLE.findall(folder)):
        return ""
    folder = _VARIABLE.sub(lambda found: env[found[1]], folder)
    home = env.get("HOME") or os.path.expanduser("~")
    return home + folder[1:] if folder.startswith("~/") else folder


def _written_since(folder: str, since_ms: int) -> Iterator[dict[str, Any]]:
    try:
        names = os.listdir(folder) if folder else []
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name, f"{name}.json")
        try:
            status = os.stat(path)
            if status.st_mtime_ns < since_ms * 1_000_000 or status.st_size > _LARGEST_BYTES:
                continue
            with open(path, "rb") as file:
                record = msgspec.json.decode(file.read())
        except (OSError, *DECODE_ERRORS):
            continue
        if isinstance(record, dict):
            yield record


def _fits(record: dict[str, Any], files: SessionFiles, launch: Launch) -> bool:
    cwd, prompt = record.get(files.cwd), record.get(files.prompt)
    if not isinstance(cwd, str) or os.path.realpath(cwd) != os.path.realpath(launch.invocation.cwd):
        return False
    return isinstance(prompt, str) and prompt.strip() == launch.request.prompt.strip()


def earlier_usage(hub: Hub, agent: str, session_id: str, run_id: str) -> Usage | None:
    """What all runs of the session but this one have used; None when no other is recorded."""
    if not session_id or session_id == run_id:
        return None
    used: Usage | None = None
    try:
        logs = [
            one.session_id
            for one in hub.store.list()
            if one.agent_session_id == session_id and one.session_id != hub.log_id
        ]
        for log_id in [*sorted(logs), hub.log_id]:
            used = _used_in(read_all(hub.store, log_id), agent, session_id, run_id, used)
    except (HarnessError, OSError):
        return None
    return used


def _used_in(
    events: Iterable[Event], agent: str, session_id: str, run_id: str, before: Usage | None
) -> Usage | None:
    """Add what a log says to what was used before; a run that reports its session's total replaces it."""
    runs: set[str] = set()
    totals: set[str] = set()
    used = before
    for event in events:
        if isinstance(event, SessionStart):
            if event.agent == agent and event.session_id == session_id and event.run_id != run_id:
                runs.add(event.run_id)
        elif isinstance(event, Warning) and event.code == "usage_cumulative":
            totals.add(event.run_id)
        elif isinstance(event, Result) and event.run_id in runs and event.usage is not None:
            used = event.usage if event.run_id in totals else (used or Usage()).plus(event.usage)
    return used
