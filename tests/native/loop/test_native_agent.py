"""The agent of our own as a user runs it: real tools, real files, a real shell, and a model that reads a script."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import MemoryStore, Request, start
from harness.errors import HarnessError
from harness.events import (
    Error,
    Event,
    RelayReply,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    ToolEnd,
    ToolProgress,
    ToolStart,
)
from harness.events.operation import Tasks
from played_model import assert_whole

CHILD = "look at it"


@pytest.fixture(autouse=True)
def lone_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "name": tool, "input": arguments}


def run(workspace: Path, *answers: list[dict[str, Any]], **options: Any) -> list[Event]:
    lane = {"marker": CHILD, "responses": [{"events": [{"type": "text", "content": "It is fine."}]}]}
    script = workspace.parent / "script.json"
    responses = [{"events": events} for events in [*answers, [{"type": "text", "content": "Done."}]]]
    script.write_bytes(msgspec.json.encode({"responses": responses, "lanes": [lane]}))
    on_event = options.pop("on_event", None)
    request = Request(agent="native", model=f"scripted/{script}", prompt="go", cwd=str(workspace), **options)
    running = start(request, store=MemoryStore())
    events = []
    for event in running:
        events.append(event)
        if on_event is not None:
            on_event(running, event)
    assert_whole(events)
    return events


def of(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_it_writes_runs_and_delegates(workspace: Path) -> None:
    events = run(
        workspace,
        [call("write", filePath="hello.sh", content="echo hi there\n")],
        [call("bash", command="sh hello.sh"), call("agent", task=CHILD, name="scout")],
    )

    assert (workspace / "hello.sh").read_text() == "echo hi there\n"
    ends = {end.tool_name: end for end in of(events, ToolEnd)}
    assert all(end.success for end in ends.values())
    assert "hi there" in ends["bash"].output
    assert ends["bash"].exit_code == 0
    assert ends["agent"].output == "It is fine."
    assert "".join(event.text for event in of(events, ToolProgress)) == "hi there\n"
    assert [start.name for start in of(events, SessionStart)] == ["", "scout"]
    assert events[-1].text == "Done."  # type: ignore[attr-defined]


def test_a_run_that_may_only_read_changes_nothing(workspace: Path) -> None:
    (workspace / "a.txt").write_text("secret plan")
    events = run(
        workspace,
        [
            call("read", filePath="a.txt"),
            call("write", filePath="b.txt", content="x"),
            call("bash", command="touch c"),
        ],
        permissions="read-only",
    )

    assert [end.success for end in of(events, ToolEnd)] == [False, False, True]
    assert os.listdir(workspace) == ["a.txt"]


def test_a_command_is_refused_when_no_one_answers_and_a_read_needs_no_answer(workspace: Path) -> None:
    (workspace / "a.txt").write_text("text")

    def deny(running: Any, event: Event) -> None:
        if type(event).__name__ == "Relay":
            assert event.tool_name == "bash"  # type: ignore[attr-defined]
            running.reply(event.id, approved=False, reason="not now")  # type: ignore[attr-defined]

    events = run(
        workspace,
        [call("read", filePath="a.txt"), call("bash", command="touch b")],
        permissions="agent-default",
        on_event=deny,
    )

    assert [reply.reason for reply in of(events, RelayReply)] == ["not now"]
    assert {end.tool_name: end.success for end in of(events, ToolEnd)} == {"read": True, "bash": False}
    assert os.listdir(workspace) == ["a.txt"]


@pytest.mark.parametrize("permissions", ["full-access", "agent-default", "read-only"])
def test_its_to_do_list_is_in_the_log_and_no_one_is_asked_about_it(permissions: str, workspace: Path) -> None:
    events = run(
        workspace,
        [call("todo", todos=[{"content": "Look", "status": "in_progress"}, {"text": "Mend"}])],
        [call("todo", todos=[{"content": "Look", "status": "later"}])],
        [call("todo", todos=[{"content": "Look", "status": "completed"}, {"content": "Mend"}])],
        [call("todo", todos=[])],
        permissions=permissions,
    )

    assert [event.tasks for event in of(events, TasksChanged)] == [
        [Task(text="Look", status="in_progress"), Task(text="Mend")],
        [Task(text="Look", status="completed"), Task(text="Mend")],
        [],
    ]
    assert [start.operations for start in of(events, ToolStart)] == [[Tasks()]] * 4
    ends = of(events, ToolEnd)
    assert [end.success for end in ends] == [True, False, True, True]
    assert "'later'" in ends[1].output
    assert "$.todos[0].status" in ends[1].output
    assert of(events, RelayReply) == []
    assert os.listdir(workspace) == []


def test_a_sub_agent_keeps_a_list_of_its_own(workspace: Path) -> None:
    script = workspace.parent / "script.json"
    own = [call("todo", todos=[{"content": "The whole"}]), call("agent", task=CHILD)]
    part = [call("todo", todos=[{"content": "A part"}])]
    done = [{"type": "text", "content": "Done."}]
    lane = {"marker": CHILD, "responses": [{"events": part}, {"events": done}]}
    script.write_bytes(
        msgspec.json.encode({"responses": [{"events": own}, {"events": done}], "lanes": [lane]})
    )
    request = Request(agent="native", model=f"scripted/{script}", prompt="go", cwd=str(workspace))
    events = list(start(request, store=MemoryStore()))

    main, child = (one.run_id for one in of(events, SessionStart))
    lists = {event.run_id: event.tasks for event in of(events, TasksChanged)}
    assert lists == {main: [Task(text="The whole")], child: [Task(text="A part")]}


def test_stopping_it_ends_the_programs_it_started(workspace: Path) -> None:
    def stop(running: Any, event: Event) -> None:
        if isinstance(event, ToolProgress):
            running.cancel()

    events = run(workspace, [call("bash", command="echo $$ > pid; echo ready; sleep 1000")], on_event=stop)

    pid = int((workspace / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert of(events, ToolEnd)[0].success is None
    assert of(events, Result)[-1].outcome == "interrupted"


@pytest.mark.parametrize(
    ("model", "words"), [("", "no model was named"), ("nobody/model", "unknown provider")]
)
def test_a_model_that_cannot_be_used_is_how_the_run_ended(
    model: str, words: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.native.loop import native

    monkeypatch.setattr(native, "usual_model", lambda environ: "")
    running = start(
        Request(agent="native", model=model, prompt="go", cwd=str(workspace)), store=MemoryStore()
    )
    events = list(running)

    assert words in of(events, Error)[0].message
    assert running.wait().outcome == "spawn_failed"


def test_the_limit_of_turns_ends_with_a_summary(workspace: Path) -> None:
    from harness import Limits

    step = [call("bash", command="true")]
    events = run(workspace, step, step, limits=Limits(max_turns=2))

    assert len(of(events, ToolStart)) == 2
    assert (events[-1].outcome, events[-1].text) == ("limit_exceeded", "Done.")  # type: ignore[attr-defined]


def test_an_empty_prompt_is_a_mistake_of_the_caller(workspace: Path) -> None:
    with pytest.raises(HarnessError, match="the prompt is empty"):
        start(Request(agent="native", prompt=" ", cwd=str(workspace)), store=MemoryStore())
