"""Commands of a recursive language model: permitted like any tool call, shown as they run, never left behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.tool import ToolPermission
from harness.events import Event, Relay, RelayReply, ReplOutput, ReplProgress, ToolEnd, ToolStart
from harness.events.operation import Command
from harness.native.rlm.repl import ReplLimits
from harness.questions.permissions import Permissions, permissions_for
from harness.sandbox.ladder import best_wall
from lacking import lacking
from played_model import PlayedModel
from played_rlm import Reaction, Stage, code, follow, play


def answering(**how: Any) -> Reaction:
    return lambda stage, event: stage.reply(event.id, **how) if isinstance(event, Relay) else None


def test_a_command_runs_where_the_user_is_and_its_output_comes_back(tmp_path: Path) -> None:
    run = play(
        code("r = exec('pwd; echo oops >&2; exit 3')", "print(r.stdout, r.stderr, r.exit_code)"),
        code("FINAL(1)"),
        cwd=str(tmp_path),
    )
    assert run.of(ReplOutput)[0].stdout == f"{tmp_path}\n oops\n 3\n"
    shown = {(event.stream, event.text) for event in run.of(ReplProgress)}
    assert {("stdout", f"{tmp_path}\n"), ("stderr", "oops\n")} <= shown


def test_the_log_says_what_was_run_and_how_it_ended(tmp_path: Path) -> None:
    run = play(code("exec('exit 3')"), code("exec('true')", "FINAL(1)"), cwd=str(tmp_path))
    [first, second] = run.of(ToolStart)
    assert (first.call_id, first.tool_name) == (f"{run.run_id}/exec-1", "exec")
    assert first.input == {"command": "exit 3"}
    assert first.operations == [Command(command="exit 3", cwd=str(tmp_path))]
    assert [(end.call_id, end.success, end.exit_code) for end in run.of(ToolEnd)] == [
        (first.call_id, False, 3),
        (second.call_id, True, 0),
    ]


def test_commands_get_the_environment_for_tools_and_nothing_else() -> None:
    run = play(
        code("FINAL(exec('echo $GIVEN; env | wc -l').stdout)"),
        env={"GIVEN": "yes", "PATH": os.environ["PATH"]},
    )
    given, count = run.result.text.split()
    assert (given, int(count) <= 5) == ("yes", True)


def test_a_command_that_takes_too_long_is_killed_with_all_it_started(tmp_path: Path) -> None:
    run = play(
        code("r = exec('sleep 60 & echo $! > pid; wait', timeout=0.3)", "print(r.exit_code, r.stderr)"),
        code("FINAL(1)"),
        cwd=str(tmp_path),
    )
    assert run.of(ReplOutput)[0].stdout == "-1 exec timeout: killed after 0.3s\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_usual_time_of_a_command_is_set_from_outside() -> None:
    # Without `exec` a shell that outlives its child for a moment may say "Killed" as well.
    run = play(code("FINAL(exec('exec sleep 9').stderr)"), exec_timeout_s=0.2)
    assert run.result.text == "exec timeout: killed after 0.2s"


def test_every_second_it_is_reported_how_a_command_does() -> None:
    run = play(code("exec('sleep 1.4')", "FINAL(1)"))
    [metrics] = [event for event in run.of(ReplProgress) if event.text.startswith("[exec] ")]
    words = dict(word.split("=") for word in metrics.text.split()[1:])
    assert metrics.stream == "stderr"
    assert list(words) == ["pid", "cpu", "rss", "wall"]
    assert 900 < int(words["wall"].removesuffix("ms")) < 5000


def test_commands_that_are_run_together_run_at_the_same_time() -> None:
    run = play(
        code(
            "from concurrent.futures import ThreadPoolExecutor",
            "with ThreadPoolExecutor(3) as pool:",
            "    FINAL([r.exit_code for r in pool.map(exec, ['sleep 0.5'] * 3)])",
        )
    )
    assert run.result.text == "[0, 0, 0]"
    starts, ends = run.of(ToolStart), run.of(ToolEnd)
    assert run.events.index(starts[-1]) < run.events.index(ends[0])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("exec('')", "CallError: exec takes a command as text"),
        ("exec('ls', timeout=-1)", "CallError: exec takes a timeout in seconds above 0"),
        ("exec('ls', timeout='x')", "CallError: exec takes a timeout in seconds above 0"),
    ],
)
def test_what_cannot_be_run_is_an_error_in_the_code(call: str, error: str) -> None:
    run = play(code(call), code("FINAL(1)"))
    assert run.of(ReplOutput)[0].error.endswith(error)


def test_much_output_is_not_in_the_log() -> None:
    run = play(code("FINAL(len(exec('head -c 5000000 /dev/zero | tr \"\\\\0\" x').stdout))"))
    assert run.result.text == str(1_000_000 + len("\n...[truncated]"))
    assert sum(len(event.text) for event in run.of(ReplProgress)) < 70_000


def test_a_command_waits_until_a_person_allows_it() -> None:
    model = PlayedModel(code("FINAL(exec('echo hi').stdout)"))
    run = asyncio.run(follow(model, permissions=Permissions("ask"), on_event=answering(approved=True)))
    assert run.result.text == "hi\n"
    [relay], [start] = run.of(Relay), run.of(ToolStart)
    assert (relay.kind, relay.tool_name, relay.input) == ("permission", "exec", {"command": "echo hi"})
    assert relay.call_id == start.call_id
    assert run.events.index(relay) < run.events.index(start)


def test_a_command_that_is_refused_is_an_error_in_the_code() -> None:
    model = PlayedModel(code("exec('rm -r x')"), code("FINAL('fine')"))
    no = answering(approved=False, reason="not here")
    run = asyncio.run(follow(model, permissions=Permissions("ask"), on_event=no))
    assert run.of(ReplOutput)[0].error.endswith("CallError: exec denied: not here")
    assert run.result.text == "fine"
    assert [end.success for end in run.of(ToolEnd)] == [False]


def test_what_is_on_the_allowlist_is_not_asked_about() -> None:
    permissions = Permissions("ask", allowlist=[ToolPermission("exec", {"command": "echo **"})])
    run = play(code("FINAL(exec('echo a b').stdout)"), permissions=permissions)
    assert (run.result.text, run.of(Relay)) == ("a b\n", [])


def test_always_allows_the_same_line_and_no_other() -> None:
    model = PlayedModel(code("exec('echo a')", "exec('echo a')", "exec('echo a; echo b')", "FINAL(1)"))
    yes = answering(approved=True, always=True)
    run = asyncio.run(follow(model, permissions=Permissions("ask"), on_event=yes))
    assert [relay.input["command"] for relay in run.of(Relay)] == ["echo a", "echo a; echo b"]


def test_a_query_asks_under_the_same_permissions() -> None:
    model = PlayedModel(code("exec('echo a')", "FINAL(llm_query('x'))"), code("FINAL(exec('echo a').stdout)"))
    yes = answering(approved=True, always=True)
    run = asyncio.run(follow(model, permissions=Permissions("ask"), on_event=yes, max_depth=1))
    assert (run.result.text, len(run.of(Relay))) == ("a\n", 1)


def test_a_run_that_may_only_read_runs_no_commands() -> None:
    run = play(code("exec('ls')"), code("FINAL('no')"), permissions=permissions_for("read-only"))
    assert "CallError: exec denied: this run may only read" in run.of(ReplOutput)[0].error
    [reply] = run.of(RelayReply)
    assert (reply.approved, reply.by) == (False, "policy")


def test_nothing_waits_for_ever_for_an_answer() -> None:
    run = play(code("exec('ls')"), code("FINAL(1)"), permissions=Permissions("ask"), relay_deadline_s=0.1)
    assert run.of(ReplOutput)[0].error.endswith("exec denied: no answer within 0.1 s")


def test_waiting_for_permission_is_not_counted_as_time_of_the_code() -> None:
    async def late(stage: Stage, event: Event) -> None:
        if isinstance(event, Relay):
            await asyncio.sleep(1.0)
            stage.reply(event.id, approved=True)

    model = PlayedModel(code("FINAL(exec('echo hi').stdout)"))
    limits = ReplLimits(time_s=0.8)
    run = asyncio.run(follow(model, permissions=Permissions("ask"), on_event=late, limits=limits))
    assert run.result.text == "hi\n"


def test_cancelling_kills_the_command(tmp_path: Path) -> None:
    def stop(stage: Stage, event: Event) -> None:
        if isinstance(event, ReplProgress):
            stage.task.cancel()

    model = PlayedModel(code("exec('echo $$ > pid; echo started; sleep 600')"))
    run = asyncio.run(follow(model, on_event=stop, cwd=str(tmp_path), exec_timeout_s=600.0))
    assert run.result.outcome == "interrupted"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_commands_are_confined_when_that_was_asked_for(tmp_path: Path) -> None:
    rung = best_wall()
    if rung is None:
        pytest.skip(lacking("wall"))
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    top = inside if rung.hides else inside / "sub"  # Landlock lets nothing new into the top
    top.mkdir(parents=True)
    outside.mkdir()
    run = play(
        code(f"exec('echo 1 > {top}/here; echo 2 > {outside}/there')", "FINAL(1)"),
        cwd=str(inside),
        sandbox=rung,
    )
    assert run.result.success
    assert [path.name for path in top.iterdir()] == ["here"]
    assert list(outside.iterdir()) == []
