"""End to end: a real agent, started by Harness, answered by the lab, read by its translator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lab_agents
from harness import Limits, MemoryStore, start
from harness.errors import UsageError
from harness.events import (
    Event,
    Message,
    ReasoningDelta,
    Result,
    ToolEnd,
    ToolStart,
    Unknown,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, Operation, Read, Search, Skill, Write
from harness.events.operation import List as Listing
from harness.lab import OfflineAgent, parse_script
from harness.models.wires.wire import AnswerText, ModelRequest
from lacking import lacking

pytestmark = pytest.mark.timeout(lab_agents.INSTALL_S + 60)

SKILL = "---\nname: greet\ndescription: Greets people.\n---\n\nSay hello politely.\n"
TOKENS = {"input": 11, "output": 7, "cache_read": 5, "reasoning": 2}


@pytest.fixture(scope="session")
def pi() -> tuple[str, str]:
    try:
        return lab_agents.pi()
    except lab_agents.NotThere as reason:
        pytest.skip(lacking("real Pi", str(reason)))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("".join(f"line_{number} = {number}\n" for number in range(1, 41)))
    (folder / ".pi" / "skills" / "greet").mkdir(parents=True)
    (folder / ".pi" / "skills" / "greet" / "SKILL.md").write_text(SKILL)
    return folder


def run(pi: tuple[str, str], project: Path, *turns: Any) -> tuple[list[Event], OfflineAgent]:
    program, version = pi
    offline = OfflineAgent(
        parse_script({"turns": list(turns)}),
        "pi",
        home=str(project.parent / "home"),
        cwd=str(project),
        version=tuple(int(number) for number in version.split(".")),
    )
    with offline:
        request = offline.request("Do the task.", binary=program, limits=Limits(timeout_s=50))
        events = list(start(request, store=MemoryStore()))
    assert offline.server.faults == []
    assert not [event for event in events if isinstance(event, Unknown)]
    return events, offline


def operations(events: list[Event]) -> list[Operation]:
    """What the calls meant in the end."""
    found: dict[str, list[Operation]] = {}
    for event in events:
        if isinstance(event, ToolStart | ToolEnd) and event.operations:
            found[event.call_id] = list(event.operations)
    return [operation for group in found.values() for operation in group]


def result(events: list[Event]) -> Result:
    assert isinstance(events[-1], Result)
    return events[-1]


def test_a_real_agent_does_what_the_script_says(pi: tuple[str, str], project: Path) -> None:
    events, offline = run(
        pi,
        project,
        [
            {"reasoning": "Let me see."},
            {"text": "Reading."},
            {"call": "read", "path": "src/app.py", "lines": [10, 20]},
        ],
        [{"call": "run", "command": "echo hi"}, {"call": "run", "command": "echo out; exit 3"}],
        {"call": "search", "query": "line_7 ", "path": "src"},
        {"call": "list", "path": "src"},
        {"call": "write", "path": "new.txt", "content": "one\ntwo\n"},
        {"call": "edit", "path": "src/app.py", "old": "line_12 = 12", "new": "line_12 = 13"},
        {"call": "skill", "name": "greet"},
        [{"text": "All done — ünï\u2028code."}, {"usage": TOKENS}],
    )
    source = str(project / "src")
    assert operations(events) == [
        Read(path=f"{source}/app.py", start_line=10, end_line=20),
        Command(command="echo hi"),
        Command(command="echo out; exit 3"),
        Search(query="line_7 ", path=source),
        Listing(path=source),
        Write(path=str(project / "new.txt")),
        Write(path=f"{source}/app.py", start_line=12, end_line=12, change="update"),
        Skill(path=str(project / ".pi/skills/greet/SKILL.md"), name="greet"),
    ]
    ends = [event for event in events if isinstance(event, ToolEnd)]
    assert [end.success for end in ends] == [True, True, False, True, True, True, True, True]
    assert (project / "new.txt").read_text() == "one\ntwo\n"
    assert "line_12 = 13\n" in (project / "src" / "app.py").read_text()
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "Let me see."
    texts = [event.text for event in events if isinstance(event, Message) and event.role == "assistant"]
    assert texts == ["Reading.", "All done — ünï\u2028code."]
    assert result(events).outcome == "completed"
    assert result(events).text == "All done — ünï\u2028code."
    last = [event for event in events if isinstance(event, UsageDelta)][-1].usage
    assert (last.input, last.cache_read, (last.output or 0) + (last.reasoning or 0)) == (11, 5, 9)
    seen = [(entry.wire, entry.lane, entry.turn, entry.outcome) for entry in offline.server.requests]
    assert seen == [("chat", "main", number, "answered") for number in range(8)]


def test_a_real_agent_gets_over_faults(pi: tuple[str, str], project: Path) -> None:
    events, offline = run(
        pi,
        project,
        [{"fault": "500"}, {"text": "One."}, {"call": "run", "command": "echo one"}],
        [{"fault": "drop"}, {"text": "This is cut off in the middle."}],
    )
    assert result(events).outcome == "completed"
    assert result(events).text == "This is cut off in the middle."
    assert [event for event in events if isinstance(event, Warning) and event.code == "retry"]
    assert [entry.outcome for entry in offline.server.requests] == [
        "refused",
        "answered",
        "dropped",
        "answered",
    ]


def test_a_real_agent_that_is_refused_for_ever_fails(pi: tuple[str, str], project: Path) -> None:
    events, _ = run(pi, project, [{"fault": "401", "times": "always"}, {"text": "Never."}])
    assert (result(events).success, result(events).outcome) == (False, "failed")


def test_a_session_that_is_resumed_continues_in_the_script(pi: tuple[str, str], project: Path) -> None:
    from msgspec.structs import replace

    script = parse_script({"turns": [{"text": "I will remember."}, {"text": "It was a banana."}]})
    home = str(project.parent / "home")
    with OfflineAgent(script, "pi", home=home, cwd=str(project)) as offline:
        request = offline.request("Remember the banana.", binary=pi[0], limits=Limits(timeout_s=50))
        assert result(list(start(request, store=MemoryStore()))).text == "I will remember."
        again = replace(request, prompt="What was it?", continue_last=True)
        assert result(list(start(again, store=MemoryStore()))).text == "It was a banana."
        assert [entry.turn for entry in offline.server.requests] == [0, 1]


def asked(answers: int) -> ModelRequest:
    return ModelRequest(model="m", system="", opening="Go.", answers=answers, tools={"shell": {}})


def test_an_offline_agent_is_everything_that_a_run_needs(tmp_path: Path) -> None:
    script = parse_script(
        {"turns": [{"call": "read", "path": "a.txt"}, {"call": "fetch", "url": "/lab/page"}]}
    )
    with OfflineAgent(script, "claude", home=str(tmp_path / "home"), cwd=str(tmp_path)) as offline:
        request = offline.request("Go.", binary="/opt/claude")
        assert (request.agent, request.prompt, request.cwd) == ("claude", "Go.", str(tmp_path))
        assert request.env["ANTHROPIC_BASE_URL"] == offline.server.url
        assert offline.server.script_run is not None
        answer = offline.server.script_run.reply(asked(1), 1).answer
        assert offline.server.url in str(answer.parts)
        offline.use(parse_script({"turns": [{"text": "another"}]}))
        assert offline.server.script_run.reply(asked(0), 1).answer.parts == (AnswerText("another"),)


def test_an_offline_agent_that_cannot_begin_leaves_no_server(tmp_path: Path) -> None:
    script = parse_script({"turns": [{"call": "patch", "patch": "x"}]})
    with pytest.raises(UsageError, match="lacks"):
        OfflineAgent(script, "pi", home=str(tmp_path / "home"), cwd=str(tmp_path), port=0)
    assert not (tmp_path / "home").exists()
