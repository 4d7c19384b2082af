"""Paths as agents write them: joined and normalized as text, without the file system."""

from __future__ import annotations

_ROOTED = ("/", "~", "$", "\\")
"""How a path begins that no directory goes in front of: also what only a shell could expand."""


def absolute(path: str, cwd: str) -> str:
    """`path` as seen from `cwd`, without `.`, `..` and empty segments.

    A relative path stays as written where `cwd` is not known (""), and so does what is no plain path:
    `~/x`, `$HOME/x`, `C:/x`. No path ("") stays none.
    """
    if path.startswith("/"):
        return _collapse(path)
    if not path or not cwd or path.startswith(_ROOTED) or path[1:3] in (":/", ":\\"):
        return path
    return _collapse(f"{cwd}/{path}")


def _collapse(path: str) -> str:
    is_absolute = path.startswith("/")
    segments: list[str] = []
    for segment in path.split("/"):
        if segment in ("", "."):
            continue
        if segment != "..":
            segments.append(segment)
        elif segments and segments[-1] != ".." and not segments[-1].startswith(("~", "$")):
            segments.pop()
        elif not is_absolute:
            segments.append(segment)
    return "/" + "/".join(segments) if is_absolute else "/".join(segments) or "."
