"""Harness itself as a process of its own: a worker of a fleet, a server, the doctor's examination."""

from __future__ import annotations

import sys


def own_command(*words: str, module: str = "harness") -> list[str]:
    """Contract: whatever the working directory has, this program is started.

    Without `-P`, `-m` looks for modules in the working directory first: a folder `harness` or a file `msgspec.py` of a
    repository would be imported, and run as whoever looks at it, before anything was asked.
    """
    return [sys.executable, "-P", "-m", module, *words]
