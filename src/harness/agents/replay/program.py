"""Writes a recorded stream as the agent wrote it: same bytes, same pace, same exit code.

usage: python player.py FILE [--speed N] [--fast]

Runs on its own, without the rest of Harness, so that it starts at once.
"""

from __future__ import annotations

import os
import sys
import time

_MOST_PAUSE_S = 2.0
"""A recording may contain long waits; they are cut short."""


def main(arguments: list[str]) -> int:
    path = arguments[0]
    speed = float(arguments[arguments.index("--speed") + 1]) if "--speed" in arguments else 1.0
    is_fast = "--fast" in arguments
    meta = read_meta(path)
    with open(path, "rb") as file:
        data = file.read()
    if is_fast or not meta.get("line_times_ms"):
        _write(1, data)
    else:
        _play(data, meta["line_times_ms"], speed)
    _write(2, _beside(path, ".stderr.txt", "stderr.txt"))
    return _end(meta.get("exit_code"))


def read_meta(path: str) -> dict:  # type: ignore[type-arg] # typing costs start-up time here
    """What lies beside a recording about it; empty when nothing does."""
    import json

    text = meta_text(path)
    try:
        meta = json.loads(text) if text else {}
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}


def meta_text(path: str) -> bytes:
    """The same as it stands there."""
    return _beside(path, ".meta.json", "meta.json")


def _beside(path: str, suffix: str, name: str) -> bytes:
    """Both layouts: `case/stdout.jsonl` with `meta.json`, and `case.stdout.jsonl` with `case.meta.json`."""
    folder, file_name = os.path.split(path)
    for candidate in (file_name.split(".stdout.", 1)[0] + suffix, name):
        try:
            with open(os.path.join(folder, candidate), "rb") as file:
                return file.read()
        except OSError:
            continue
    return b""


def _play(data: bytes, times_ms: list, speed: float) -> None:  # type: ignore[type-arg]
    last_ms = 0
    for number, line in enumerate(data.split(b"\n")):
        if not line:
            continue
        at_ms = times_ms[number] if number < len(times_ms) else last_ms
        time.sleep(min(_MOST_PAUSE_S, max(0, at_ms - last_ms) / 1000 / speed))
        last_ms = at_ms
        _write(1, line + b"\n")


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _end(exit_code: object) -> int:
    if not isinstance(exit_code, int):
        return 0
    if exit_code < 0:
        import signal

        signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    return exit_code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
