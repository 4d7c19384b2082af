"""A process that does nothing but hold a conversation, to be killed in tests.

    lone_conversation.py BINARY FOLDER STATE

It writes the id of its run once the conversation is in that state: `handshake`, `busy`, `asked` or `idle`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from conversations import VERSION, Talk
from harness.events import Event, Relay, ToolStart
from harness.runs import launch
from harness.runs.program_conversation import ProgramConversation

_SEEN = {"busy": ToolStart, "asked": Relay}


def main(binary: str, folder: str, state: str) -> None:
    launch.probe_version = lambda binary, args: VERSION
    talk, held = Talk(Path(folder)), ProgramConversation()
    run = talk.start(binary, held)
    if state != "handshake":
        for event in run:
            if _is_there(event, state):
                break
    os.write(1, run.id.encode() + b"\n")
    signal.pause()


def _is_there(event: Event, state: str) -> bool:
    return state in _SEEN and isinstance(event, _SEEN[state])


main(*sys.argv[1:])
