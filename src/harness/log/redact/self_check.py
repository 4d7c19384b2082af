"""Masking shows that it works before anything depends on it.

An expression that finds nothing masks nothing, and nobody sees a difference: with one release of Python's
`re` that was so. A made-up value that comes in two pieces must be found, else no run begins.
"""

from __future__ import annotations

import platform
from functools import cache

from harness.errors import HarnessError
from harness.log.redact.secret_finder import SecretFinder
from harness.log.redact.split_secrets import SplitSecrets

_FIRST, _SECOND = b"made-up-va", b"lue-3Xq8Zt"
_LINES = b'{"%b":""}\n{"%b":"say \\"%b"}\n{"%b":"%b\\\\"}\n'


@cache
def check_masking(key: str) -> None:
    """Mask a value that is cut over two strings under `key`. Raises HarnessError if it would show."""
    name = key.encode()
    block = _LINES % (name, name, _FIRST, name, _SECOND)
    finder = SecretFinder({"MADE_UP": (_FIRST + _SECOND).decode()}, (key,))
    try:
        edits = SplitSecrets(finder, (key,)).feed((key,), block, 0, 0)
    except (SystemError, RecursionError, MemoryError):
        edits = []
    if [block[edit.start : edit.end] for edit in edits] != [_FIRST, _SECOND]:
        raise HarnessError(
            f"secrets in pieces of text are not found with this Python ({platform.python_version()}),"
            " so nothing was started",
            hint="run Harness with another Python; this one's `re` module gives wrong answers",
        )
