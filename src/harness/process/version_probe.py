"""Which version of a program is installed: asked once, then remembered until the file changes."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

import msgspec

from harness.config import cache_directory
from harness.errors import HarnessError
from harness.log.private_files import make_private_directory, replace_private
from harness.process.invocation import Invocation
from harness.system import exact_json

_TIMEOUT_S = 10.0
"""For all of it: a program that does not know the question begins to work instead, and may do so for hours."""
_NUMBER = r"v?(\d+(?:\.\d+)+[^\s,)]*|\d+)"


def probe_version(binary: str, args: tuple[str, ...], *, timeout_s: float = _TIMEOUT_S) -> str:
    """`<binary> --version`, never anything that begins a session. Empty when it does not say, or has no words for it.

    `timeout_s`: where no one waits for it, a program may take longer, as one that unpacks itself first does.
    """
    if not args:
        return ""
    try:
        status = os.stat(binary)
    except OSError:
        return ""
    # Unpacked files may all be of 1985, and a starter of the same length is another version's: when it was put there counts.
    key = f"{os.path.realpath(binary)}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_size}"
    versions = _load()
    if key not in versions:
        text = _ask(binary, args, timeout_s)
        if not text:
            return ""
        versions[key] = text
        _save(versions)
    return versions[key]


def parse_version(text: str) -> tuple[int, ...]:
    """`2.1.325` → (2, 1, 325); empty when there are no numbers."""
    return tuple(int(part) for part in re.findall(r"\d+", text.split("-", 1)[0])[:4])


def version_in(output: str) -> str:
    """The first word of the first lines that looks like a version."""
    for line in output.split("\n"):
        for word in line.split():
            if (match := re.fullmatch(_NUMBER, word.strip("()[],;."))) and "." in match[1]:
                return match[1]
    return ""


def _ask(binary: str, args: tuple[str, ...], timeout_s: float) -> str:
    from harness.process.child import Child

    output: list[bytes] = []
    try:
        # Not where the user works: some programs obey a folder's settings even to say their version.
        child = Child(Invocation(argv=(os.path.abspath(binary), *args), env=os.environ, cwd=os.sep))
    except (HarnessError, OSError):
        return ""
    deadline = time.monotonic() + timeout_s
    try:
        while child.exit is None:
            chunks = child.read(max(0.0, deadline - time.monotonic()))
            output += [chunk.data for chunk in chunks]
            text = b"".join(output)
            if not chunks or time.monotonic() >= deadline or _is_session(text) or _is_whole(text):
                child.kill()
    finally:
        child.close()
    text = b"".join(output)
    return "" if _is_session(text) else version_in(text.decode("utf-8", "replace"))


def _is_session(output: bytes) -> bool:
    """A program that does not know the question has begun to write records."""
    return output.lstrip().startswith(b"{")


def _is_whole(output: bytes) -> bool:
    """Whether the line with the version has ended."""
    return version_in(output[: output.rfind(b"\n") + 1].decode("utf-8", "replace")) != ""


def _path() -> str:
    return os.path.join(cache_directory(), "versions.json")


def _load() -> dict[str, str]:
    try:
        with open(_path(), "rb") as file:
            return exact_json.decode(file.read(), dict[str, str])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _save(versions: dict[str, str]) -> None:
    with suppress(OSError):  # a cache that cannot be written only costs time
        make_private_directory(cache_directory())
        replace_private(_path(), exact_json.encode(versions))
