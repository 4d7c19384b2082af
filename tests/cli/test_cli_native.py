"""The agent of our own on the command line: it is always there, needs no program, and is never chosen by chance."""

from __future__ import annotations

import json

from cli_machine import CliMachine


def test_it_is_listed_with_all_agents_as_a_part_of_harness(cli: CliMachine) -> None:
    assert "  - Harness agent (native) [part of Harness; " in cli.call("list", "--all").out
    rows = {row["agent"]: row for row in cli.call("list", "--all", "--json").data}
    assert rows["native"]["available"] is True
    assert cli.call("list", "--json").data == []


def test_a_check_shows_that_it_is_there(cli: CliMachine) -> None:
    answer = cli.call("check", "native")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Harness agent is available (")


def test_a_dry_run_shows_that_nothing_is_started(cli: CliMachine) -> None:
    answer = cli.call("run", "--agent", "native", "--prompt", "x", "--dry-run")
    assert answer.code == 0
    assert answer.out.startswith("Binary: none: it runs in this process\n")


def test_recordings_are_still_played_by_the_player(cli: CliMachine) -> None:
    answer = cli.call("run", "--recording", "/nowhere.jsonl")
    assert "there is no recording at /nowhere.jsonl" in answer.err


def test_it_continues_an_earlier_session(cli: CliMachine) -> None:
    script = cli.root / "script.json"
    script.write_text('{"responses": [{"events": [{"type": "text", "content": "Hello."}]}]}')
    native = ("run", "--agent", "native", "--model", f"scripted/{script}")
    first = cli.call(*native, "--prompt", "remember the blue whale")
    assert first.code == 0
    [session] = cli.call("sessions", "list", "--json").data
    for option in (("--resume", session["session_id"]), ("--continue",)):
        answer = cli.call(*native, "--prompt", "which animal?", *option, "--format", "stream")
        assert answer.code == 0
        assert "does not support" not in answer.err
    sessions = cli.call("sessions", "list", "--json").data
    assert len(sessions) == 3
    assert {one["agent_session_id"] for one in sessions} == {session["session_id"]}


def test_its_to_do_list_is_shown_as_that_of_every_agent(cli: CliMachine) -> None:
    todos = [
        {"content": "Look around", "status": "completed"},
        {"content": "Mend it", "status": "in_progress"},
    ]
    call = {"type": "tool_call", "name": "todo", "input": {"todos": todos}}
    texts = {"type": "text", "content": "Mended."}
    script = cli.root / "script.json"
    script.write_text(json.dumps({"responses": [{"events": [call]}, {"events": [texts]}]}))
    native = ("run", "--agent", "native", "--model", f"scripted/{script}", "--prompt", "x")
    assert cli.call(*native, "--permissions", "read-only").code == 0
    [session] = cli.call("sessions", "list", "--json").data

    def shown(format: str) -> str:
        answer = cli.call("sessions", "show", session["session_id"], "--format", format)
        assert answer.code == 0
        return answer.out

    assert "☑ Look around\n" in shown("pretty")
    assert "▸ Mend it\n" in shown("pretty")
    [shown_text] = [
        event for event in map(json.loads, shown("log").splitlines()) if event["type"] == "TasksChanged"
    ]
    assert [task["text"] for task in shown_text["tasks"]] == ["Look around", "Mend it"]
    # A list is no activity, and no unknown one either.
    assert {json.loads(line)["type"] for line in shown("activity").splitlines()} == {"agent"}


def test_a_session_that_is_not_there_is_reported(cli: CliMachine) -> None:
    answer = cli.call("run", "--agent", "native", "--prompt", "x", "--continue", "--model", "scripted/none")
    assert answer.code != 0


def test_an_answer_that_was_cut_short_is_no_success(cli: CliMachine) -> None:
    script = cli.root / "script.json"
    texts = '{"events": [{"type": "text", "content": "```python\\nFINAL(1)\\n```"}], "stop_reason": "%s"}'
    for agent in ("native", "rlm"):
        for reason in ("length", "refusal"):
            script.write_text('{"responses": [%s]}' % (texts % reason))
            limits = ("--max-turns", "1") if agent == "rlm" else ()
            answer = cli.call(
                "run",
                "--agent",
                agent,
                "--model",
                f"scripted/{script}",
                "--prompt",
                "x",
                "--format",
                "json",
                *limits,
            )
            assert answer.code != 0
            assert answer.data["success"] is False
            assert answer.data.get("stop_reason") == (reason if agent == "native" else None)


def test_files_beside_a_prompt_reach_the_model(cli: CliMachine) -> None:
    (cli.project / "notes.txt").write_text("The whale is blue.")
    (cli.root / "shot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    script = cli.root / "script.json"
    script.write_text('{"responses": [{"events": [{"type": "text", "content": "Hello."}]}]}')
    words = (
        "run",
        "-a",
        "native",
        "-m",
        f"scripted/{script}",
        "-d",
        str(cli.project),
        "-p",
        "see @notes.txt",
    )
    assert cli.call(*words, "--attach", str(cli.root / "shot.png")).code == 0
    [said] = [event for event in cli.log() if event["type"] == "Message" and event["role"] == "user"]
    files = [(part["name"], part["media_type"]) for part in said["parts"] if part["type"] == "file"]
    assert files == [("shot.png", "image/png"), ("notes.txt", "text/plain")]


def test_a_program_that_takes_no_pictures_is_not_started_with_one(cli: CliMachine) -> None:
    (cli.root / "shot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    answer = cli.call("run", "-a", "aider", "-p", "x", "--attach", str(cli.root / "shot.png"))
    assert answer.code == 2
    assert "takes no pictures or documents: shot.png" in answer.err
