"""An agent with offspring: a plain, a detached (setsid) and a double-forked one.

    family.py stay | leave

Prints the four process ids on one line, its own first. `stay` then waits for ever; `leave` ends.
Not a test: `test_child_end` and `lone_harness.py` run it.
"""

from __future__ import annotations

import os
import signal
import sys


def sleep_for_ever(announce: int) -> None:
    os.write(announce, b"%d " % os.getpid())
    while True:
        signal.pause()


def beget(announce: int, *, detached: bool = False, twice: bool = False) -> None:
    child = os.fork()
    if child == 0:
        if detached:
            os.setsid()
        if twice and os.fork():
            os._exit(0)
        sleep_for_ever(announce)
    if twice:
        os.waitpid(child, 0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    listen, announce = os.pipe()
    beget(announce)
    beget(announce, detached=True)
    beget(announce, detached=True, twice=True)
    heard = b""
    while heard.count(b" ") < 3:
        heard += os.read(listen, 100)
    os.write(1, b"%d %s\n" % (os.getpid(), heard.strip()))
    while sys.argv[1] == "stay":
        signal.pause()
    os._exit(0)


main()
