"""What an interrupted command has started is gone when the turn has ended: Goose leaves the children of its shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from conversations import Talk, at_call, is_alive, pid_file, result_of, wait_until
from harness.runs import launch
from harness.runs.program_conversation import ProgramConversation
from python_programs import python_program

GOOSE = r"""
import json, subprocess, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

prompt = None
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        about = {"name": "goose", "version": "1.52.0"}
        say(id=number, result={"protocolVersion": 1, "agentInfo": about, "agentCapabilities": {}, "authMethods": []})
    elif method == "session/new":
        say(id=number, result={"sessionId": "s"})
    elif method == "session/prompt":
        prompt = number
        child = subprocess.Popen(["sh", "-c", "trap '' INT TERM; sleep 600 | sleep 601"])
        with open("pid", "w") as file:
            file.write(str(child.pid))
        call = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "shell", "rawInput": {"command": "sleep"}}
        say(method="session/update", params={"sessionId": "s", "update": call})
    elif method == "session/cancel":
        say(id=prompt, result={"stopReason": "cancelled"})
    elif number is not None:
        say(id=number, result={})
"""


def test_no_command_of_goose_outlives_the_turn_that_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "probe_version", lambda binary, args: "1.52.0")
    talk, held = Talk(tmp_path), ProgramConversation()
    binary = str(python_program(tmp_path / "goose", GOOSE))
    try:
        run = talk.start(binary, held, agent="goose")
        events = talk.follow(run, at_call(run.cancel))
        assert result_of(events).outcome == "interrupted"
        child = pid_file(tmp_path)
        wait_until(lambda: not is_alive(child))  # while the conversation lasts
    finally:
        held.close()
