"""Whether a call reads all of a folder in which something lies that a rule denies or asks about.

A search through a folder reads the file that must not be read without naming it. Lists of names are no reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from harness.approvals.call import ProposedCall
from harness.approvals.command_fragments import BETWEEN_COMMANDS, with_whole_words
from harness.approvals.command_grammar import names
from harness.approvals.rules import Rule, is_path_of
from harness.approvals.work_folder import WorkFolder

_READ_BELOW = names(
    "7z 7za 7zz ack ag bzip2 cp cpio ditto egrep fgrep grep gzip install ln mv pax rar rclone rg rsync scp sftp tar xz zip zstd"
)
"""Programs that read every file below a folder, or give the folder another name."""
_WITHOUT_A_FOLDER = names("ack ag rg")
_OF_ALL_FILES = names(
    "archive bundle cat-file checkout-index clone diff fast-export format-patch grep log show stash worktree"
)
"""Commands of git that show what is in files of the repository."""
_MOST_NAMES = 20_000
"""Of a folder with more it is not known what lies in it."""


def first_below(rules: Iterable[Rule], call: ProposedCall, workspace: WorkFolder) -> Rule | None:
    """The first rule that denies or asks about something in a folder that a call reads as a whole."""
    wanted = [rule for rule in rules if rule.answer != "allow" and rule.path and rule.is_about(call)]
    if not wanted:
        return None
    for folder in dict.fromkeys(_folders(call, workspace)):
        for number, path in enumerate(_paths_in(folder)):
            for rule in wanted:
                if number >= _MOST_NAMES or is_path_of(rule.path, path, workspace):
                    return rule
    return None


def _folders(call: ProposedCall, workspace: WorkFolder) -> Iterator[str]:
    if call.category == "read" and not call.lists:
        for path in call.paths or (".",):
            yield from filter(os.path.isdir, workspace.reals(path, call.cwd))
    places = [call.cwd]
    for part in BETWEEN_COMMANDS.split(with_whole_words(call.command)):
        words = part.split()
        name = words[0].rpartition("/")[2] if words else ""
        if name == "cd" and len(words) > 1:
            places.append(os.path.join(call.cwd, words[1]))
        if name == "git" and _OF_ALL_FILES.intersection(words):
            yield from workspace.reals(".", call.cwd)
        if name not in _READ_BELOW:
            continue
        options = "".join(word for word in words if word.startswith("-"))
        named = [word for word in words[1:] if not word.startswith("-")]
        if name in _WITHOUT_A_FOLDER or ("grep" in name and "r" in options.casefold()):
            named.append(".")
        for word in named:
            yield from (
                real for place in places for real in workspace.reals(word, place) if os.path.isdir(real)
            )


def _paths_in(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        yield from (os.path.join(place, name) for name in (*files, *folders))
