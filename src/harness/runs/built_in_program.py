"""A built-in agent as a program: started by `own_process`, it reads its request from stdin and writes its log to stdout.

Nobody can answer it there: what it asks is refused, unless everything is allowed.
"""

from __future__ import annotations

import os
import signal
import sys

import msgspec
from msgspec.structs import replace

from harness.contracts.request import Request
from harness.errors import HarnessError
from harness.events import Error, Result
from harness.log.codec import encode_lines
from harness.log.stores.memory import MemoryStore
from harness.runs.run import start


def main() -> None:
    os.environ["HARNESS_UNDO"] = "false"  # whoever started this process sees to that
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    request = replace(request, env={name: os.environ.get(name, "") for name in request.env})
    out = sys.stdout.buffer
    try:
        run = start(request, store=MemoryStore())
    except HarnessError as error:
        ends = (
            Error(message=error.words, code="spawn_failed"),
            Result(success=False, outcome="spawn_failed"),
        )
        out.write(encode_lines(ends))
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: run.cancel())
    for batch in run.batches():
        out.write(encode_lines(list(batch)))
        out.flush()
