"""What a shell command does: which files it reads, writes, searches and lists, or just that it runs.

Rules
1. A line is a file operation only if all of it is: each simple command must read, search, list or
   write files (below), filter what the one before it in the pipe says, or do nothing to any file
   (`cd`, `echo`, `test` …). A line with anything else in it is one `Command`, so `cat a && rm b` is
   a command and not a read: what may destroy is never hidden behind what does not.
2. In a pipe the first command says what is touched; `head`, `tail` and `sed -n` after it narrow the lines.
3. Read: `cat`, `nl`, `head`, `tail`, and `sed -n` that only prints ranges. Search: `grep`, `rg`,
   `find`, `fd`. List: `ls`, `tree`, and `rg --files`, `fd` without a pattern. Write: a redirection into a
   file of one of these or of `echo` or `printf`; `tee`; `apply_patch` with a here-document.
4. `bash -lc '…'` and its relatives are what they run; `sudo`, `env`, `timeout` … and assignments in
   front of a command are looked through; `cd` moves the paths that follow.
5. One operation per file: `cat a b` reads two.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from harness.events.operation import Command, Operation
from harness.formats.fields import absolute

if TYPE_CHECKING:
    from harness.formats.shell.reader import ShellReader


_MOVES = frozenset({"cd", "pushd", "popd"})
_DYNAMIC = frozenset("$~*?[")
"""What only the shell itself could expand."""


def operations_of(command: str, cwd: str = "") -> list[Operation]:
    """The operations of a command line, or the one `Command` that it is; never raises.

    With `cwd`, the directory that it runs in, paths are absolute; otherwise they stay as written.
    """
    return _reader()(cwd).script(command) or [Command(command=command)]


@cache
def _reader() -> type[ShellReader]:
    """Imported on first use: many runs have no shell command at all, and the reader takes several modules."""
    from harness.formats.shell.reader import ShellReader

    return ShellReader


def directory_after(command: str, cwd: str) -> str:
    """The working directory of a shell after a command that succeeded in `cwd`; "" when that is not known.

    For agents that use one shell for all their calls.
    """
    if not any(move in command for move in _MOVES):
        return cwd
    from harness.formats.shell.words import Unreadable, pipelines_of  # few commands move

    try:
        pipelines = pipelines_of(command)
    except Unreadable:
        return ""
    for pipeline in pipelines:
        # In a pipe each command has a shell of its own.
        if len(pipeline) == 1 and pipeline[0].words and pipeline[0].words[0] in _MOVES:
            cwd = _moved(pipeline[0].words, cwd)
    return cwd


def _moved(words: list[str], cwd: str) -> str:
    if words[0] != "cd" or len(words) != 2 or words[1].startswith("-") or _DYNAMIC & set(words[1]):
        return ""
    path = absolute(words[1], cwd)
    return path if path.startswith("/") else ""
