"""Conversations with programs that speak as Claude Code does: what it says is written down, step by step.

talk = Talk(tmp_path)
run = talk.start(talk.program(*turn(ask("1"), answer(), text("Done."))))
events = talk.follow(run, on_relay=lambda relay: run.reply(relay.id, approved=True))
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import recorded_peer
from harness.contracts.request import Request
from harness.events import Event, Message, Relay, RelayReply, Result, ToolStart
from harness.log.stores.files import FileStore
from harness.runs.audit import check
from harness.runs.dialogue import Dialogue
from harness.runs.program_conversation import ProgramConversation
from harness.runs.run import Run, start
from python_programs import python_program

VERSION = "2.1.325"
SESSION = "5e551000-0000-4000-8000-000000000001"
Step = dict[str, Any]


def out(record: Any) -> Step:
    return {"dir": "out", "msg": record}


def await_line(record: Any) -> Step:
    return {"dir": "in", "msg": record}


def state(name: str) -> Step:
    return out({"type": "system", "subtype": "session_state_changed", "state": name, "session_id": SESSION})


HELLO = await_line({"type": "control_request", "request_id": "h", "request": {"subtype": "initialize"}})
READY = out({"type": "control_response", "response": {"subtype": "success", "request_id": "h"}})
INIT = out({"type": "system", "subtype": "init", "session_id": SESSION, "model": "m", "cwd": "/"})
INTERRUPT = await_line({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}})
ANSWER = await_line({"type": "control_response", "response": {}})


def prompt(prompt_id: str = "P1") -> Step:
    return await_line({"type": "user", "uuid": prompt_id})


def lifecycle(prompt_id: str, name: str) -> Step:
    return out({"type": "command_lifecycle", "command_uuid": prompt_id, "state": name})


def text(said: str) -> Step:
    content = [{"type": "text", "text": said}]
    message = {"id": f"m-{said}", "role": "assistant", "model": "m", "content": content}
    return out({"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": SESSION})


def call(call_id: str, command: str = "touch a.txt", tool: str = "Bash") -> Step:
    content = [{"type": "tool_use", "id": call_id, "name": tool, "input": {"command": command}}]
    message = {"id": f"m-{call_id}", "role": "assistant", "model": "m", "content": content}
    return out({"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": SESSION})


def ask(call_id: str, command: str = "touch a.txt", tool: str = "Bash", **request: Any) -> Step:
    body = {"subtype": "can_use_tool", "tool_name": tool, "input": {"command": command}, **request}
    return out(
        {"type": "control_request", "request_id": f"q-{call_id}", "request": {**body, "tool_use_id": call_id}}
    )


def called(call_id: str, command: str = "touch a.txt") -> list[Step]:
    return [call(call_id, command), ask(call_id, command)]


def done(call_id: str, output: str = "") -> Step:
    content = [{"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": False}]
    return out({"type": "user", "message": {"role": "user", "content": content}, "session_id": SESSION})


def result(said: str = "Done.", **more: Any) -> Step:
    record = {"type": "result", "subtype": "success", "is_error": False, "result": said, "num_turns": 1}
    return out({**record, "session_id": SESSION, "usage": {"input_tokens": 1, "output_tokens": 1}, **more})


ABORTED = result("", subtype="error_during_execution", is_error=True, terminal_reason="aborted_tools")


def turn(*middle: Step, prompt_id: str = "P1", end: Step | None = None) -> list[Step]:
    began = [prompt(prompt_id), state("running"), lifecycle(prompt_id, "started"), INIT]
    return [*began, *middle, end or result(), state("idle")]


def first_turn(*middle: Step, end: Step | None = None) -> list[Step]:
    return [HELLO, READY, *turn(*middle, end=end)]


class Talk:
    """One folder with its programs and its logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = FileStore(str(folder / "store"))
        self._programs = 0
        self.gate = folder / "gate"
        """The program waits for it at the step `later`."""
        self.later: Step = {"dir": "wait", "msg": str(self.gate)}

    def program(self, *steps: Step) -> str:
        """A program that says this, and waits where it is spoken to."""
        self._programs += 1
        folder = self.folder / f"program-{self._programs}"
        folder.mkdir()
        recording = folder / "steps.jsonl"
        recording.write_text("".join(json.dumps(step) + "\n" for step in steps))
        return recorded_peer.peer_program(folder, recording, VERSION)

    def code(self, code: str) -> str:
        """A program in Python, which may misbehave."""
        self._programs += 1
        program = self.folder / f"program-{self._programs}"
        return str(python_program(program, f"import json, os, signal, sys, time\n{code}", options="-S"))

    def start(
        self,
        binary: str,
        conversation: ProgramConversation | None = None,
        run_id: str = "",
        prompt: str = "go",
        **request: Any,
    ) -> Run:
        wanted = {
            "agent": "claude",
            "permissions": "ask",
            "two_way": True,
            "cwd": str(self.folder),
            **request,
        }
        return start(
            Request(binary=binary, prompt=prompt, **wanted),
            store=self.store,
            conversation=conversation,
            run_id=run_id,
        )

    def follow(self, run: Run, on: Callable[[Event], object] = lambda event: None) -> list[Event]:
        """Its events, each given to `on`; its log is proved."""
        events: list[Event] = []
        for event in run:
            events.append(event)
            on(event)
        run.wait()
        self.prove(run.id)
        return events

    def prove(self, run_id: str) -> None:
        audit = check(self.store, run_id)
        assert not audit.problems, audit.problems


def allowing(run: Run, **reply: Any) -> Callable[[Event], object]:
    return lambda event: (
        run.reply(event.id, **{"approved": True, **reply}) if isinstance(event, Relay) else None
    )


def relays(events: list[Event]) -> list[Relay]:
    return [event for event in events if isinstance(event, Relay)]


def replies(events: list[Event]) -> list[tuple[bool, str]]:
    return [(event.approved, event.by) for event in events if isinstance(event, RelayReply)]


def said(events: list[Event], role: str = "user") -> list[str]:
    return [event.text for event in events if isinstance(event, Message) and event.role == role]


def result_of(events: list[Event]) -> Result:
    run_id = events[-1].run_id
    [found] = [event for event in events if isinstance(event, Result) and event.run_id == run_id]
    assert found is events[-1]
    return found


def worker_of(run: Run) -> Dialogue:
    assert isinstance(run._worker, Dialogue)
    return run._worker


def at_call(act: Callable[[], object]) -> Callable[[Event], object]:
    return lambda event: act() if isinstance(event, ToolStart) else None


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] != b"Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def pid_file(folder: Path) -> int:
    path = folder / "pid"
    wait_until(lambda: path.exists() and path.read_text())
    return int(path.read_text())


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
