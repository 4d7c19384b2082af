"""What the user trusts, in a file of the user's own; a record that another user can write to counts for nothing.

    {"trusted": {"/home/me/shop/harness.toml": "<digest>"},
     "folders": [{"folder": "/home/me/shop", "agent": "claude", "digest": "…", "files": {".mcp.json": "<digest>"}}]}

`trusted` are project files, `folders` the settings that a folder brings for an agent (`approvals/trust.py`). Both are
bound to the content: what has changed since is not trusted. A digest also covers the programs in the same folder that
the content names (`named_files`).
"""

from __future__ import annotations

import os
import stat
from typing import Any

from harness.config.named_files import named_files

_LARGEST_PROGRAM_BYTES = 64 << 20
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def digest_of(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


def digest_with_programs(data: bytes, folder: str) -> str:
    """Of a file's content, and of the programs below `folder` that it names."""
    programs = {name: digest_of(read_whole(path)) for name, path in named_files(data, folder)}
    if not programs:
        return digest_of(data)
    program_lines = "".join(f"\n{name}\n{digest}" for name, digest in sorted(programs.items()))
    return digest_of(data + os.fsencode(program_lines))


def read_whole(path: str) -> bytes:
    """The content of a regular file; of what cannot be read, or is too large, something that is never the same."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                data = file.read(_LARGEST_PROGRAM_BYTES + 1)
                if len(data) <= _LARGEST_PROGRAM_BYTES:
                    return data
    except OSError:
        pass
    return os.urandom(32)


def read_trusted(path: str) -> tuple[dict[str, str], str]:
    """Real path of a project file → its digest; and what is wrong with the record, if something is."""
    content, problem = read_record(path)
    return content["trusted"], problem


def read_record(path: str) -> tuple[dict[str, Any], str]:
    """The whole record, with `trusted` and `folders`; and what is wrong with it, if something is."""
    data, problem = _own_file(path)
    content, damage = _decoded(data) if data else ({}, "")
    return {"trusted": {}, "folders": [], **content}, problem or damage


def _own_file(path: str) -> tuple[bytes, str]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return b"", ""
    except OSError as error:
        return b"", f"cannot be read, so no project is trusted: {error.strerror}"
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
            return b"", "is not your own file, so no project is trusted"
        if status.st_mode & _WRITABLE_BY_OTHERS:
            return b"", f"can be changed by others, so no project is trusted (run `chmod 600 {path}`)"
        return file.read() or b"?", ""


def _decoded(data: bytes) -> tuple[dict[str, Any], str]:
    import json

    try:
        content = json.loads(data)
        files = {str(path): str(digest) for path, digest in content["trusted"].items()}
        folders = [
            {key: str(folder[key]) for key in ("folder", "agent", "digest")}
            | {"files": {str(name): str(digest) for name, digest in folder["files"].items()}}
            for folder in content.get("folders", [])
        ]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return {}, "is damaged, so no project is trusted (say `harness trust DIR` again)"
    return {"trusted": files, "folders": folders}, ""
