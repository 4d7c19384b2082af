"""Runs through a gateway: recorded, proved, played again, and continued by a model from a step on."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import tempfile
from collections.abc import Iterable
from pathlib import Path

import atif
import pytest
from msgspec.structs import replace

from gateway_place import KEY, TURNS, Place, calls_of
from harness.clients.formats import open_view
from harness.clients.sessions.model_calls import model_input
from harness.contracts.request import GatewayOptions, Request
from harness.errors import UsageError
from harness.events import Error, Event, ToolEnd, UsageDelta
from harness.log.store import read_all
from harness.runs import run_gateway
from harness.runs.audit import check
from harness.runs.replay_request import recorded_run, replay_request
from harness.runs.run import start
from harness.sandbox.ladder import best_wall
from harness.sandbox.rungs import NAMESPACES
from harness.stage import ViewOptions, feed_all, run_through
from python_programs import SYSTEM_PYTHON


def test_every_call_is_recorded_and_its_usage_is_the_providers(place: Place) -> None:
    run, events = place.run()
    result = run.wait()
    assert (result.outcome, result.text) == ("completed", "Done.")
    calls = calls_of(events)
    assert [(call.step, call.calls, call.origin, call.status) for call in calls] == [
        (1, 1, "provider", 200),
        (2, 1, "provider", 200),
        (3, 0, "provider", 200),
    ]
    assert calls[0].new_bytes == calls[0].sent_bytes
    assert calls[1].new_bytes < calls[1].sent_bytes
    deltas = [event for event in events if isinstance(event, UsageDelta)]
    assert [delta.id for delta in deltas] == [call.id for call in calls]
    assert result.usage is not None
    assert (result.usage.input, result.usage.cache_read, result.usage.output) == (3000, 600, 150)
    assert result.stated is not None  # what the agent says of itself, and nothing twice
    assert result.stated.input == 1


def test_each_step_of_a_trajectory_has_what_its_own_call_used(place: Place) -> None:
    place.script(
        [
            [*TURNS[0], {"usage": {"input": 11, "output": 1, "cache_read": 0}}],
            [TURNS[1], {"usage": {"input": 22, "output": 2, "cache_read": 0}}],
            [TURNS[2], {"usage": {"input": 33, "output": 3, "cache_read": 0}}],
        ]
    )
    _, events = place.run()
    view = open_view("atif", ViewOptions())
    document = json.loads(b"".join([*feed_all(view, events), *view.finish()]))
    steps = [step for step in document["steps"] if step["source"] == "agent"]
    metrics = [(step["metrics"]["prompt_tokens"], step["metrics"]["completion_tokens"]) for step in steps]
    assert metrics == [(11, 1), (22, 2), (33, 3)]
    assert [step["llm_call_count"] for step in steps] == [1, 1, 1]
    assert document["final_metrics"]["total_prompt_tokens"] == 66


def test_no_file_of_the_run_has_the_key_or_the_token(place: Place) -> None:
    place.script(
        [{"call": "run", "command": "env; cat /proc/self/environ | tr '\\0' '\\n'"}, {"text": "Done."}]
    )
    run, _ = place.run()
    assert run.wait().outcome == "completed"
    for folder, _, names in os.walk(place.folder):
        for name in names:
            data = Path(folder, name).read_bytes()
            assert KEY.encode() not in data
            assert b"hgw-" not in data
    assert all(KEY not in repr(entry.body) for entry in place.lab.requests)


def test_the_token_is_masked_by_its_name(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_gateway, "TOKEN_PREFIX", "of no known shape ")
    place.script([{"call": "run", "command": "echo $ANTHROPIC_API_KEY"}, {"text": "Done."}])
    _, events = place.run()
    outputs = [event.output for event in events if isinstance(event, ToolEnd)]
    assert outputs == ["[REDACTED:gateway_token]\n"]


@pytest.mark.parametrize("two_way", [False, True])
def test_a_gateway_that_cannot_be_set_up_is_a_failed_start(
    place: Place, monkeypatch: pytest.MonkeyPatch, two_way: bool
) -> None:
    request = Request(
        agent="claude", prompt="Go.", cwd=str(place.cwd), gateway=GatewayOptions(), two_way=two_way
    )
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(place.folder / "is not there"))
        run = start(request, store=place.store)
        events = list(run)
    assert run.wait().outcome == "spawn_failed"
    [error] = [event for event in events if isinstance(event, Error)]
    assert "the gateway of this run cannot be set up: No such file or directory" in error.message
    assert "TMPDIR" in error.message
    assert not check(place.store, run.id).problems


def test_a_replay_asks_nobody_and_says_nothing_where_nothing_differs(place: Place) -> None:
    run, _ = place.run()
    asked = len(place.lab.requests)
    played, events = place.replay(run)
    assert len(place.lab.requests) == asked
    result = played.wait()
    assert (result.outcome, result.text, result.usage) == ("completed", "Done.", None)
    assert {call.origin for call in calls_of(events)} == {"recording"}
    assert [what for call in calls_of(events) for what in call.differs] == []
    assert not any(isinstance(event, UsageDelta) for event in events)


@pytest.mark.skipif(
    best_wall() is not NAMESPACES,
    reason="this system gives no namespaces to its users: `sysctl kernel.apparmor_restrict_unprivileged_userns=0` "
    "(Ubuntu), or `sysctl kernel.unprivileged_userns_clone=1` (Debian), as root",
)
def test_what_a_seal_puts_into_the_folder_is_no_difference(place: Place) -> None:
    place.script([{"call": "run", "command": "ls -a; find . -maxdepth 1 | sort"}, {"text": "Done."}])
    run, _ = place.run()
    request = replay_request(recorded_run(place.store, run.id), options=GatewayOptions(is_strict=True))
    played, events = place.run(request=replace(request, sealed="write"))
    listed = [event.output for event in events if isinstance(event, ToolEnd)]
    assert "harness.toml" in str(listed)  # it is seen in there
    assert [what for call in calls_of(events) for what in call.differs] == []
    assert played.wait().outcome == "completed"
    (place.cwd / "harness.toml").write_text("")
    _, events = place.run(request=replace(request, sealed="write"))
    assert "harness.toml" in str([what for call in calls_of(events) for what in call.differs])


TREE = """import os
def draw(folder, before):
    names = sorted(os.listdir(folder))
    for name in names:
        is_last, path = name == names[-1], os.path.join(folder, name)
        print(before + ("└───" if is_last else "├───") + name + ("/" if os.path.isdir(path) else ""))
        if os.path.isdir(path):
            draw(path, before + ("    " if is_last else "│   "))
draw(".", "")
"""


@pytest.mark.skipif(
    best_wall() is not NAMESPACES,
    reason="this system gives no namespaces to its users: `sysctl kernel.apparmor_restrict_unprivileged_userns=0` "
    "(Ubuntu), or `sysctl kernel.unprivileged_userns_clone=1` (Debian), as root",
)
def test_what_a_seal_puts_into_a_folder_of_the_folder_is_no_difference(place: Place) -> None:
    (place.cwd / ".github").mkdir()
    (place.cwd / ".github/notes.md").write_text("mine")
    (place.cwd / "draw.py").write_text(TREE)
    command = f"find . | sort; {shlex.quote(SYSTEM_PYTHON)} -I draw.py"
    place.script([{"call": "run", "command": command}, {"text": "Done."}])
    run, _ = place.run()
    request = replay_request(recorded_run(place.store, run.id), options=GatewayOptions(is_strict=True))
    _, events = place.run(request=replace(request, sealed="write"))
    listed = str([event.output for event in events if isinstance(event, ToolEnd)])
    assert "├───skills/" in listed or "└───skills/" in listed  # a stand-in, in a folder that is there
    assert [what for call in calls_of(events) for what in call.differs] == []
    (place.cwd / ".github/more.md").write_text("")
    _, events = place.run(request=replace(request, sealed="write"))
    assert "more.md" in str([what for call in calls_of(events) for what in call.differs])


def test_a_result_that_differs_is_told_at_its_step_and_ends_a_strict_replay(place: Place) -> None:
    run, _ = place.run()
    (place.cwd / "data.txt").write_text("one\nTWO\n")
    _, events = place.replay(run)
    told = [(call.step, what) for call in calls_of(events) for what in call.differs]
    assert len(told) == 1
    assert told[0][0] == 2
    assert "cat data.txt" in told[0][1]
    assert 'line 2: "two" → "TWO"' in told[0][1]
    strict, events = place.replay(run, is_strict=True)
    assert strict.wait().outcome == "failed"
    assert "replay_differs" in [event.code for event in events if isinstance(event, Error)]


def test_a_replay_parts_from_the_recording_where_something_else_is_said(place: Place) -> None:
    run, _ = place.run()
    parted, events = place.replay(run, prompt="Stop.")
    assert parted.wait().outcome == "failed"
    error = next(event for event in events if isinstance(event, Error) and event.code == "replay_parted")
    assert "at step 1" in error.message
    assert '"Go." → "Stop."' in error.message


def test_shell_language_and_time_zone_are_in_a_replay_those_of_the_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a home of its own, and the run may have had that of the user."""
    for name, value in (("SHELL", "/bin/bash"), ("TZ", "Asia/Tokyo"), ("LC_ALL", "C")):
        monkeypatch.setenv(name, value)
    place.script([{"call": "run", "command": "echo $SHELL $TZ $LC_ALL"}, {"text": "Done."}])
    run, events = place.run()
    assert [event.output for event in events if isinstance(event, ToolEnd)] == ["/bin/bash Asia/Tokyo C\n"]
    _, events = place.replay(run)
    assert [what for call in calls_of(events) for what in call.differs] == []


def test_a_replay_may_be_in_another_folder(place: Place) -> None:
    place.script(
        [{"call": "run", "command": f"cat {shlex.quote(str(place.cwd))}/data.txt"}, {"text": "Done."}]
    )
    run, _ = place.run()
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data.txt").write_text("one\ntwo\n")
    (place.cwd / "data.txt").unlink()
    played, events = place.replay(run, cwd=str(elsewhere))
    assert played.wait().outcome == "completed"
    outputs = [event.output for event in events if isinstance(event, ToolEnd)]
    assert outputs == ["one\ntwo\n"]
    assert [what for call in calls_of(events) for what in call.differs] == []


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_fork_asks_the_model_from_its_step_on(place: Place, steps: int) -> None:
    run, _ = place.run()
    before = len(place.lab.requests)
    place.script([*TURNS[:steps], {"text": "Another end."}])
    forked, events = place.replay(run, fork_at=steps)
    result = forked.wait()
    assert (result.outcome, result.text) == ("completed", "Another end.")
    origins = [call.origin for call in calls_of(events)]
    assert origins == ["recording"] * steps + ["provider"]
    assert len(place.lab.requests) - before == 1
    assert result.usage is not None
    assert result.usage.input == 1000


def test_failures_are_played_too(place: Place) -> None:
    place.script([[{"fault": "401"}, {"text": "never"}]])
    run, _ = place.run()
    assert run.wait().outcome == "failed"
    played, events = place.replay(run)
    assert played.wait().outcome == "failed"
    assert [call.status for call in calls_of(events)] == [401]


def test_what_cannot_be_done_is_said_before_anything_starts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = {"prompt": "Go.", "cwd": str(place.cwd), "gateway": GatewayOptions()}
    with pytest.raises(UsageError, match="cannot be pointed at a gateway"):
        start(Request(agent="cursor", **base), store=place.store)
    with pytest.raises(UsageError, match="needs the name of a model"):
        start(Request(agent="opencode", **base), store=place.store)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    with pytest.raises(UsageError, match="needs a key"):
        start(Request(agent="claude", **base), store=place.store)
    assert list(place.store.list()) == []


def test_a_session_without_a_recording_cannot_be_replayed(place: Place) -> None:
    run = start(Request(agent="claude", prompt="Go.", cwd=str(place.cwd)), store=place.store)
    run.wait()
    with pytest.raises(UsageError, match="no recording of its model calls"):
        recorded_run(place.store, run.id)


def test_a_trajectory_has_the_tools_that_the_model_was_offered_and_the_calls(place: Place) -> None:
    request = Request(agent="claude", prompt="Go.", cwd=str(place.cwd), gateway=GatewayOptions())
    run = start(request, store=place.store)

    def shown(events: Iterable[Event]) -> bytes:
        options = ViewOptions(model_input=lambda: model_input(place.store, run.id))
        return b"".join(run_through(open_view("atif", options), events))

    live = shown(run)
    assert shown(read_all(place.store, run.id)) == live
    atif.Trajectory.model_validate_json(live)
    document = json.loads(live)
    tools = {tool["function"]["name"]: tool["function"] for tool in document["agent"]["tool_definitions"]}
    assert tools["Bash"]["parameters"]["type"] == "object"
    calls = [call for step in document["steps"] for call in step.get("extra", {}).get("model_calls", [])]
    assert [(call["id"], call["status"]) for call in calls] == [(f"call-{n}", 200) for n in (1, 2, 3)]
    requests = [call["request"] for call in calls]
    assert requests[0]["items_before"] == 0
    assert any("Go." in str(item["value"]) for item in requests[0]["items"])
    assert "Bash" in requests[0]["tools"]
    assert requests[0]["options"]["max_tokens"]
    for earlier, later in itertools.pairwise(requests):  # each goes on where the one before it has ended
        assert later["items_before"] == earlier["items_before"] + len(earlier["items"])
        assert later["items"]
        assert "system" not in later
    without = b"".join(run_through(open_view("atif", ViewOptions()), read_all(place.store, run.id)))
    assert "tool_definitions" not in json.loads(without)["agent"]


def test_before_an_answer_breaks_off_its_program_has_the_time_that_it_had(place: Place) -> None:
    """Programs drop what they have not read of a connection that is closed: what they show would depend on luck."""
    place.script([[{"fault": "drop"}, {"text": "A whole answer, of which half is sent."}]])
    run, events = place.run()
    _, again = place.replay(run)
    for found in (events, again):
        assert calls_of(found)[0].took_ms - calls_of(found)[0].first_ms >= 90
