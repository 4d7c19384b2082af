"""The id of an agent's session, from the agent's own store: for agents that never tell it.

What is found there is only read, and only one session that fits the run is taken for its own: it was
written since the run began, in the same directory, for the same prompt.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from harness.sources.agent import SessionFiles
from harness.sources.formats.command_line import argument_of
from harness.sources.process.launch import Launch
from harness.sources.translation.json_lines import DECODE_ERRORS

_VARIABLE = re.compile(r"\$(\w+)")
_LARGEST_BYTES = 4 * 1024 * 1024
_CLOCKS_DIFFER_MS = 2000
"""A file system may note the time of a file less exactly than the clock tells it."""


def find_session(launch: Launch, started_ms: int, pid: int) -> str:
    """Empty where the agent tells its id itself, where none fits, and where more than one does."""
    files = launch.agent.session_files
    if files is None:
        return ""
    found = [
        told
        for told in _written_since(_folder(files, launch), started_ms - _CLOCKS_DIFFER_MS)
        if _fits(told, files, launch)
    ]
    own = [told for told in found if told.get(files.pid) == pid] or found
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
                told = msgspec.json.decode(file.read())
        except (OSError, *DECODE_ERRORS):
            continue
        if isinstance(told, dict):
            yield told


def _fits(told: dict[str, Any], files: SessionFiles, launch: Launch) -> bool:
    cwd, prompt = told.get(files.cwd), told.get(files.prompt)
    if not isinstance(cwd, str) or os.path.realpath(cwd) != os.path.realpath(launch.invocation.cwd):
        return False
    return isinstance(prompt, str) and prompt.strip() == launch.request.prompt.strip()
