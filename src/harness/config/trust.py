"""Which project files the user trusts: `{path: SHA-256 of what it said then}`, in a file of the user's own.

A file that has changed since, or that another user can write to, is not trusted.
"""

from __future__ import annotations

import os
import stat

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def digest_of(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


def read_trusted(path: str) -> tuple[dict[str, str], str]:
    """Real path of a file → its digest; and what is wrong with the record, if something is."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        return {}, f"cannot be read, so no project is trusted: {error.strerror}"
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
            return {}, "is not your own file, so no project is trusted"
        if status.st_mode & _WRITABLE_BY_OTHERS:
            return {}, f"can be changed by others, so no project is trusted (run `chmod 600 {path}`)"
        return _decoded(file.read())


def _decoded(data: bytes) -> tuple[dict[str, str], str]:
    import json

    try:
        content = json.loads(data)
        files = content["trusted"]
        return {str(path): str(digest) for path, digest in files.items()}, ""
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return {}, "is damaged, so no project is trusted (say `harness trust DIR` again)"
