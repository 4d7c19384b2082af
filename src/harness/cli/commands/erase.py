"""Delete everything that Harness has stored on this machine: sessions, settings, keys, caches.

What agents have stored themselves, and the folders that they worked in, are left alone. The program itself is removed by
whatever installed it (`uv tool uninstall harness-agents`, `pipx uninstall harness-agents`).
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from harness.cli.console import Console, is_terminal, number_of
from harness.config import cache_directory, config_directory, data_directory
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.log.stores.files import FileStore

SUMMARY = "delete everything that Harness has stored here"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences

    store = preferences.open_store(preferences.load(console))
    folders = _folders()
    _show(folders, store, console)
    if arguments.dry_run:
        return 0
    _refuse_while_used(store)
    if not folders and not _is_elsewhere(store):
        return 0
    if not arguments.yes and not _is_confirmed(console):
        console.say("Nothing was deleted.")
        return 1
    return _erase(folders, store, console)


def _folders() -> list[str]:
    """Those of ours that there are; each ends with `harness`, whatever the environment says."""
    places = (data_directory(), config_directory(), cache_directory())
    return [place for place in dict.fromkeys(places) if os.path.isdir(place)]


def _is_elsewhere(store: FileStore) -> bool:
    """Whether sessions are in a folder that a setting names, where there may be other files too."""
    inside = any(store.directory.startswith(folder + os.sep) for folder in _folders())
    return not inside and os.path.isdir(store.directory)


def _show(folders: list[str], store: FileStore, console: Console) -> None:
    if not folders and not _is_elsewhere(store):
        console.say("Harness has stored nothing here.")
    for folder in folders:
        files, size = _measure(folder)
        console.say(f"{folder}: {number_of(files, 'file')}, {size / 1e6:.1f} MB")
    if _is_elsewhere(store):
        console.say(
            f"{store.directory}: {number_of(len([*store.list()]), 'session')}; other files there stay"
        )


def _measure(folder: str) -> tuple[int, int]:
    files = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            files += 1
            try:
                size += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue  # it went away meanwhile
    return files, size


def _refuse_while_used(store: FileStore) -> None:
    """Raises UsageError while a session is written or a server runs, or would at the next login: it would write again."""
    from harness.cli.commands.service import unit_path
    from harness.clients.server_address import answering_server

    if os.path.exists(unit_path()):
        raise UsageError(f"the server is a service: {unit_path()}", hint="first: harness service uninstall")
    running = [
        session.session_id
        for session in store.list()
        if session.outcome == "" and store.is_live(session.session_id)
    ]
    if running:
        hint = "stop them first; `harness top` shows them"
        raise UsageError(f"{number_of(len(running), 'session')} run now: {', '.join(running[:3])}", hint=hint)
    if url := answering_server():
        raise UsageError(
            f"a server runs at {url}", hint="stop it first, with Ctrl-C or `harness service uninstall`"
        )


def _is_confirmed(console: Console) -> bool:
    if not is_terminal(0):
        raise UsageError("there is no terminal to ask on", hint="--yes deletes all of it without asking")
    console.put("Delete all of this for good? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _erase(folders: list[str], store: FileStore, console: Console) -> int:
    import shutil

    if _is_elsewhere(store):
        for metadata in [*store.list()]:
            store.delete(metadata.session_id)
    failures: list[str] = []
    for folder in folders:
        if os.path.islink(folder):
            failures.append(f"{folder} is a link: delete what it points to yourself")
            continue
        shutil.rmtree(
            folder,
            onerror=lambda _call, path, error: failures.append(
                f"{path}: {getattr(error[1], 'strerror', None) or error[1]}"
            ),
        )
    for failure in failures:
        console.warning(failure)
    console.say("What agents have stored themselves is still there; `harness histories` says where.")
    return 1 if failures else 0
