"""Take back what a turn of an agent changed in its folder: edits, and also what its commands did.

Without SESSION it is the last one of this folder, without TURN the last turn that changed files. What it would do is shown
first. Lines, files and modes that you have changed yourself stay; what cannot be taken back is named. Git's own data
(commits, branches, the index) is never touched, and nothing of a repository is run.

Exit codes: 0 done, 1 some was kept, 2 wrong usage, 3 nothing to undo, 5 the files changed after they were shown.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

from harness.cli.console import Console, is_terminal
from harness.cli.output import write_json, write_text
from harness.cli.parser import completes
from harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.clients.changes.undo import SessionUndo, UndoAnswer
    from harness.log.stores.files import FileStore
    from harness.undo.store import Checkpoint

SUMMARY = "take back what a turn of an agent changed, commands included"
_YES = ("y", "yes")
_TURN = re.compile(r"[1-9]\d{0,4}(?:\.\.[1-9]\d{0,4})?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_text = "an id, the beginning of one, or `last` (default: the last of this folder)"
    completes(add("session", metavar="SESSION", nargs="?", default="", help=help_text), "sessions")
    add("turn", metavar="TURN", nargs="?", default="", help="a number, the id of its run, or 3..7")
    help_text = "only this path, and what is below it, whoever changed it (may be repeated)"
    add("--path", action="append", default=[], metavar="PATH", help=help_text)
    help_text = (
        "put this file back as it was, even though it was changed since; redo has both (may be repeated)"
    )
    add("--force", action="append", default=[], metavar="PATH", help=help_text)
    add("--show", default="", metavar="PATH", help="this file before the turn and now, as a diff")
    add("--list", action="store_true", help="the turns of the session, and what can be undone")
    add("--forget", action="store_true", help="remove everything that is kept for the undo of this folder")
    add_shared_arguments(parser)


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dry-run", action="store_true", help="only show what it would do")
    add("--yes", action="store_true", help="do not ask")
    add("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences
    from harness.clients.changes.undo import NothingToUndo, open_undo

    if arguments.forget:
        return _forget(console)
    session, turn = arguments.session, arguments.turn
    if not turn and _TURN.fullmatch(session):
        session, turn = "", session
    store = preferences.open_store(preferences.load(console))
    log_id = find_log(store, session)
    with open_undo(store, log_id) as undo:
        if undo.problem:
            console.warning(undo.problem)
        if arguments.list:
            return _list(undo, console, as_json=arguments.json)
        if arguments.show:
            return _show(undo, turn, _within(undo, arguments.show))
        try:
            return _undo(undo, turn, arguments, console)
        except NothingToUndo as error:
            if not session and not error.hint and (earlier := _earlier(log_id)):
                error.hint = f"the session before it in this folder: harness undo {earlier}"
            raise


def _earlier(log_id: str) -> str:
    """The session that was recorded in this folder before that one; empty: there is none."""
    others = [row.log_id for row in _recorded_here() if row.log_id != log_id]
    return others[-1] if others else ""


def _undo(undo: SessionUndo, turn: str, arguments: argparse.Namespace, console: Console) -> int:
    from harness.undo.undoing import UndoChoice

    turns = undo.choose(turn)
    paths = [_within(undo, path) for path in arguments.path]
    choice = UndoChoice(paths, [_within(undo, path) for path in arguments.force])
    return confirm(
        lambda expect: undo.undo(turns, choice, expect=expect), arguments, console, "Take these back? [y/N] "
    )


def find_log(store: FileStore, session: str) -> str:
    """Of a session, by default the last one that was recorded in this folder. Raises UnknownSession, NothingToUndo."""
    from harness.clients.changes.undo import NothingToUndo
    from harness.clients.sessions.ids import find

    if session:
        return find(store, session)
    rows = _recorded_here()
    if not rows:
        raise NothingToUndo(
            f"no turn in {os.getcwd()} was recorded", hint="name a session: harness undo last"
        )
    return rows[-1].log_id


def _recorded_here() -> list[Checkpoint]:
    """Around the turns of all sessions in this folder, the oldest first."""
    from harness.undo.store import UndoStore, folder_of

    here = os.getcwd()
    if not os.path.isdir(folder_of(here)):
        return []
    undo_store = UndoStore(here)
    try:
        return [row for row in undo_store.checkpoints() if row.run_id]
    finally:
        undo_store.close()


def confirm(
    act: Callable[[str | None], UndoAnswer],
    arguments: argparse.Namespace,
    console: Console,
    question: str,
    *,
    is_redo: bool = False,
) -> int:
    """Show what it would do, ask, and do it. `act`: with the digest of what was shown it is done."""
    from harness.clients.changes.undo_lines import count_of, lines_of, summary_of

    plan = act(None)
    if not arguments.json:
        write_text("\n".join([*lines_of(plan), ""]))
    if not count_of(plan):
        if arguments.json:
            write_json(plan)
        else:
            console.say("There is nothing to do.")
        return 1 if plan.files else 0
    if not arguments.dry_run:
        if not arguments.yes and not _agrees(console, question):
            console.say("Nothing was changed.")
            return 1
        plan = act(plan.digest)
    if arguments.json:
        write_json(plan)
    elif plan.is_done:
        for file in plan.files:
            if file.act == "keep" and file.why:
                console.debug(f"{file.path}: {file.why}")
        console.say(summary_of(plan, is_redo=is_redo))
    return 1 if any(file.act == "keep" for file in plan.files) else 0


def _agrees(console: Console, question: str) -> bool:
    if not is_terminal(0):
        raise UsageError("there is no terminal to ask on", hint="use --dry-run to look, and --yes to do it")
    console.put(question)
    return sys.stdin.readline().strip().lower() in _YES


def _within(undo: SessionUndo, path: str) -> str:
    """A path as it is in the folder of the session. Raises UsageError."""
    absolute = os.path.abspath(path)
    for root in (undo.root, os.path.abspath(undo.root)):
        if absolute.startswith(f"{root}{os.sep}"):
            return os.path.relpath(absolute, root)
    folder, name = os.path.split(absolute)
    real = os.path.join(os.path.realpath(folder), name)
    if real.startswith(f"{undo.root}{os.sep}"):
        return os.path.relpath(real, undo.root)
    raise UsageError(f"{path} is not in {undo.root}", hint="name a path in the folder of the session")


def _list(undo: SessionUndo, console: Console, *, as_json: bool) -> int:
    from harness.clients.changes.undo_lines import turn_lines

    turns = undo.turns()
    if as_json:
        write_json(turns)
    elif turns:
        write_text("".join(f"{line}\n" for line in turn_lines(turns)))
    else:
        console.say("no turn of this session was recorded with its files")
    return 0


def _show(undo: SessionUndo, turn: str, path: str) -> int:
    from harness.folds.changes.lines import patch_of

    [record, *_] = undo.choose(turn)
    before, _left, now = undo.versions(record, path)
    texts = [None if data is None else data.decode("utf-8", "replace") for data in (before, now)]
    write_text(
        patch_of(path, path, texts[1], texts[0]) if texts[0] != texts[1] else "The file is as it was.\n"
    )
    return 0


def _forget(console: Console) -> int:
    from harness.undo.store import forget

    is_gone = forget(os.getcwd())
    console.say("What was kept for undo here is removed." if is_gone else "Nothing was kept for undo here.")
    return 0 if is_gone else 3
