"""Where a repository stands, read from its files: no git is run, and nothing in it is obeyed."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from hashlib import blake2b

import msgspec

_MOST_BYTES = 1 << 20
_BRANCH = "refs/heads/"
_REF = re.compile(r"ref: (refs/[^\0\n]+)")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class GitPlace(msgspec.Struct, frozen=True):
    head: str = ""
    """The commit; empty: there is none yet, or it cannot be found."""
    branch: str = ""
    programs: str = ""
    """A digest of what names programs there: the configuration and the hooks."""
    nested: tuple[str, ...] = ()
    """Folders below with a `.git` of their own: repositories, submodules and worktrees."""

    def lost(self, root: str) -> list[str]:
        """Those whose `.git` is gone, which no undo brings back."""
        return [path for path in self.nested if not os.path.lexists(os.path.join(root, path, ".git"))]


def git_place(root: str) -> GitPlace | None:
    """None: the folder itself is no working tree."""
    own = os.path.join(root, ".git")
    if os.path.islink(own):
        return None
    folder = own if os.path.isdir(own) else _pointed(root, _text(own))
    if not folder or not os.path.isdir(folder):
        return None
    common_text = _text(os.path.join(folder, "commondir")).strip()
    common = os.path.normpath(os.path.join(folder, common_text)) if common_text else folder
    head = _text(os.path.join(folder, "HEAD")).strip()
    match = _REF.fullmatch(head)
    commit = head
    if match is not None and ".." not in match[1]:
        loose = _text(os.path.join(common, match[1])).strip()
        commit = loose or _packed(_text(os.path.join(common, "packed-refs")), match[1])
    return GitPlace(
        head=commit if _COMMIT.fullmatch(commit) else "",
        branch=match[1].removeprefix(_BRANCH) if match is not None else "",
        programs=_programs(common),
    )


def _pointed(root: str, text: str) -> str:
    return os.path.join(root, text[8:].strip()) if text.startswith("gitdir: ") else ""


def _packed(text: str, name: str) -> str:
    rows = (line.split(" ", 1) for line in text.split("\n") if line and line[0] not in "#^")
    return next((row[0] for row in rows if len(row) > 1 and row[1] == name), "")


def _programs(folder: str) -> str:
    digest = blake2b(_text(os.path.join(folder, "config")).encode("utf-8", "replace"), digest_size=8)
    hooks = os.path.join(folder, "hooks")
    with suppress(OSError):
        for name in sorted(os.listdir(hooks)):
            status = os.lstat(os.path.join(hooks, name))
            digest.update(f"{name!r} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()


def _text(path: str) -> str:
    """Of a plain file; empty for anything else."""
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    return ""
