"""The agent that CONTRIBUTING.md shows as a whole works as it is printed there."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from harness.contracts.agent import Agent
from harness.contracts.request import Request
from harness.events import Message, Result, ToolEnd, ToolStart
from harness.events.operation import List
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline

LINES = b"""\
{"kind":"hello","session":"o-1"}
{"kind":"say","text":"I look."}
{"kind":"call","id":"c1","tool":"sh","input":{"command":"ls /w"}}
{"kind":"result","id":"c1","ok":true,"output":"a.txt"}
{"kind":"bye","tokens":{"in":10,"out":5}}
"""


@pytest.fixture
def otter(tmp_path: Path) -> Agent:
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    found = re.search(r"### An agent in one file\n\n```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    (tmp_path / "otter.py").write_text(found[1])
    spec = spec_from_file_location("otter", tmp_path / "otter.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    agent = module.AGENT
    assert isinstance(agent, Agent)
    return agent


def test_its_recording_becomes_events(otter: Agent) -> None:
    pipeline = Pipeline(otter.translator())
    start = RawStart(at_ms=0, agent="otter", cwd="/w", prompt="List the files.")
    entries = (start, RawOutput(at_ms=1, stream="stdout", data=LINES), RawExit(at_ms=2, code=0))
    events = [event for entry in entries for event in pipeline.feed(entry)]

    assert [event.text for event in events if isinstance(event, Message)] == ["List the files.", "I look."]
    [call] = [event for event in events if isinstance(event, ToolStart)]
    assert call.operations == [List(path="/w")]
    assert [event.output for event in events if isinstance(event, ToolEnd)] == ["a.txt"]
    assert isinstance(events[-1], Result)
    assert events[-1].outcome == "completed"
    assert events[-1].usage is not None
    assert events[-1].usage.output == 5


def test_its_command_line_has_the_flags_that_are_asked_for(otter: Agent) -> None:
    request = Request(agent="otter", prompt="Hi", model="m")

    assert otter.command(request, ()).args == ("--json", "--model", "m")
