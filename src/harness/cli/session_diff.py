"""`harness sessions diff`: what a session changed, as a patch.

Its texts are from the log, and from the files as they are now where the log has only parts of them. What is unknown is
reported on standard error, so that the patch can be piped to `git apply`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.cli.console import Console, is_terminal, wants_color
from harness.errors import UsageError
from harness.formatting.escapes import neutralised

if TYPE_CHECKING:
    from harness.clients.changes.review import Review
    from harness.events import Event
    from harness.folds.changes.fold import ChangedTurn

_COLORS = {"+": "32", "-": "31", "@": "36", "d": "1"}
_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "only what turn N changed; the first turn is 1"
    parser.add_argument("--turn", type=int, default=0, metavar="N", help=help_text)
    parser.add_argument("--stat", action="store_true", help="only how many lines of which files")


def diff(batches: Iterable[Sequence[Event]], arguments: argparse.Namespace, console: Console) -> int:
    """Print it; 1 if the texts of some file are not known. Raises UsageError for a turn that there is not."""
    from harness.cli.output import STDOUT, write_text
    from harness.clients.changes.review import Review
    from harness.folds.changes.fold import ChangeHistory

    history = ChangeHistory()
    for batch in batches:
        for event in batch:
            history.feed(event)
    review = Review(history)
    scope = _scope([*history.turns.values()], arguments.turn)
    has_color = wants_color(arguments.color, os.environ, is_terminal=is_terminal(STDOUT))
    if arguments.stat:
        write_text(_stat(review, scope))
        return 0
    patch, missing = review.patch(scope)
    write_text(_colored(patch) if has_color else patch, is_styled=has_color)
    for path in missing:
        console.say(f"not in the patch: {neutralised(path)}: {_why(review, scope, path)}")
    if not patch and not missing:
        console.say("it changed no files" if scope == "conversation" else "it changed no files in this turn")
    return _FAILED if missing else 0


def _scope(turns: Sequence[ChangedTurn], number: int) -> str:
    if not number:
        return "conversation"
    for turn in turns:
        if turn.number == number:
            return f"turn:{turn.id}"
    raise UsageError(f"there is no turn {number}", hint=f"it has {len(turns)}")


def _why(review: Review, scope: str, path: str) -> str:
    file = review.file(scope, path)
    if not file.is_here:
        return file.now.why_unread
    if file.now.is_binary:
        return "it is no text"
    return "the log does not have the text that was there before"


def _stat(review: Review, scope: str) -> str:
    listing = review.listing(scope)
    if not listing.files:
        return ""
    rows = [
        (file.change, neutralised(file.path), f"+{file.added}", f"-{file.removed}", file.is_count_complete)
        for file in listing.files
    ]
    width = max(len(path) for _letter, path, *_rest in rows)
    lines = [
        f"{letter} {path:<{width}}  {added:>6} {removed:>6}{'' if is_whole else '  or more'}"
        for letter, path, added, removed, is_whole in rows
    ]
    files = "1 file" if len(rows) == 1 else f"{len(rows)} files"
    total = f"{files}, +{listing.added} -{listing.removed}{'' if listing.is_count_complete else ' or more'}"
    return "\n".join([*lines, total]) + "\n"


def _colored(patch: str) -> str:
    return "".join(
        f"\x1b[{_COLORS[line[0]]}m{neutralised(line)}\x1b[0m\n"
        if line[:1] in _COLORS
        else f"{neutralised(line)}\n"
        for line in patch.removesuffix("\n").split("\n")
        if patch
    )
