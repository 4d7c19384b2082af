"""Where a shell stands after a command, for agents that keep one shell open between their calls."""

from __future__ import annotations

from harness.sources.formats.paths import absolute

_MOVES = frozenset({"cd", "pushd", "popd"})
_DYNAMIC = frozenset("$~*?[")
"""What only the shell itself could expand."""


def directory_after(command: str, cwd: str) -> str:
    """The directory after a command that succeeded in `cwd`; "" when that cannot be told."""
    if not any(move in command for move in _MOVES):
        return cwd
    # Only now: few commands move, and reading one takes a family of patterns.
    from harness.sources.formats.shell.words import Unreadable, pipelines_of

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
