"""A process that does nothing but run an agent, to be killed in tests.

    lone_harness.py [--fork] PROGRAM ARGUMENT…

The agent's stdout is passed on. With `--fork` a copy of this process, with copies of its
descriptors, lives on; its process id is printed first.
"""

from __future__ import annotations

import os
import signal
import sys

from harness.process.child import Child
from harness.process.invocation import Invocation


def main(argv: list[str]) -> None:
    forking = argv[0] == "--fork"
    child = Child(Invocation(tuple(argv[forking:]), dict(os.environ), "/"))
    if forking:
        copy = os.fork()
        while copy == 0:
            signal.pause()
        os.write(1, b"%d\n" % copy)
    while child.exit is None:
        for chunk in child.read():
            os.write(1, chunk.data)


main(sys.argv[1:])
