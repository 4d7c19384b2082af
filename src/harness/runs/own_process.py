"""A built-in agent in a process of its own, as it runs behind a gateway: a program like any other, without a key, and sealed as one.

How it is started; `built_in_program` is what runs there.
"""

from __future__ import annotations

import os
import sys

import msgspec
from msgspec.structs import replace

from harness.contracts.agent import CommandLine
from harness.contracts.request import Request

_BEGIN = (
    "import sys; sys.path += [path for path in sys.argv[1:] if path not in sys.path]; "
    "from harness.runs.built_in_program import main; main()"
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
