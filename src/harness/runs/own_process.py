"""A built-in agent in a process of its own, as it runs behind a gateway: a program like any other, without a key, and sealed as one.

It reads its request from stdin and writes its log to stdout. Nobody can answer it there: what it asks is refused, unless
everything is allowed.
"""

from __future__ import annotations

import os
import signal
import sys

import msgspec
from msgspec.structs import replace

from harness.contracts.agent import CommandLine
from harness.contracts.request import Request
from harness.errors import HarnessError
from harness.events import Error, Result
from harness.log.codec import encode_lines
from harness.log.stores.memory import MemoryStore

_BEGIN = (
    "import sys; sys.path += [path for path in sys.argv[1:] if path not in sys.path]; "
    f"from {__name__} import main; main()"
)


def own_process(request: Request) -> CommandLine:
    """The arguments of Python. Where its modules are is said by name: behind a wall, or with another home, it would not find
    them.
    """
    places = (path for path in sys.path if os.path.isdir(path))
    files = (path for path in (request.context, *request.mcp) if path)
    alone = replace(
        request,
        gateway=None,
        sealed="",
        sandbox=request.sandbox and not request.sealed,
        on_ask="allow" if request.on_ask == "allow" else "deny",
        asks_at_limit=False,
        tool_servers=(),
        env=dict.fromkeys(request.env, ""),
    )
    return CommandLine(
        args=("-P", "-c", _BEGIN, *map(os.path.abspath, places), *files), stdin=msgspec.json.encode(alone)
    )


def main() -> None:
    """In that process."""
    from harness.runs.run import start

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
