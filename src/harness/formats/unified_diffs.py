"""A unified diff as the patch format of `apply_patch`: the same lines under other headers."""

from __future__ import annotations

from collections.abc import Sequence

_NONE = "/dev/null"


def patch_of_diff(lines: Sequence[str]) -> str:
    """Empty for what is no unified diff. Line numbers are left out: models count badly."""
    result: list[str] = []
    old, place, sign = "", 0, ""
    while place < len(lines):
        line = lines[place]
        following = lines[place + 1] if place + 1 < len(lines) else ""
        if line.startswith("--- ") and following.startswith("+++ "):
            old, new = _path(line), _path(following)
            sign = "+" if old == _NONE else ""
            result += _header(old, new)
            place += 2
            continue
        place += 1
        is_deleted = bool(result) and result[-1].startswith("*** Delete File:")
        if (
            not result
            or is_deleted
            or line.startswith(("diff --git ", "index ", "new file mode", "deleted file mode"))
        ):
            continue
        if line.startswith("@@"):
            result += [] if sign else ["@@"]
        elif line[:1] in ("+", "-", " ", "") and not (sign and line[:1] != "+"):
            result.append(line or " ")
    return "\n".join(["*** Begin Patch", *_without_end(result), "*** End Patch"]) if result else ""


def _header(old: str, new: str) -> list[str]:
    if old == _NONE:
        return [f"*** Add File: {new}"]
    if new == _NONE:
        return [f"*** Delete File: {old}"]
    moved = [f"*** Move to: {new}"] if new != old else []
    return [f"*** Update File: {old}", *moved]


def _path(line: str) -> str:
    name = line[4:].partition("\t")[0].strip().strip('"')
    return name[2:] if name[:2] in ("a/", "b/") else name


def _without_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
