"""Plays a recorded stream as a live process, with its timing: `--agent replay --recording FILE`.

FILE is what an agent once wrote to stdout. A `meta.json` (or `<name>.meta.json`) beside it may say
which agent that was, when each line came and how the process ended; `stderr.txt` likewise.
The player is a small program of ours, so that everything after it is as with a real agent.
"""

from __future__ import annotations

import sys

from harness.agents.replay import program as replay_program
from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.request import Request
from harness.contracts.translator import Translator


def command(request: Request, version: Version) -> CommandLine:
    del version
    return CommandLine(args=("-I", "-S", replay_program.__file__, request.recording, *request.extra_args))


class Plain(Translator):
    """For a recording of an unknown agent: every line is stored, none is translated."""

    announces_start = announces_end = False


AGENT = Agent(
    name="replay",
    title="Replay",
    binaries=(sys.executable,),
    command=command,
    translator=Plain,
    supports=frozenset({"read-only", "agent-default"}),
    install="part of Harness",
    reveals={"deltas": "as recorded", "usage": "as recorded"},
)
