"""Agents, commands, hooks, checks and other models, as files and settings say, through both doors of the built-in agent."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from cli_machine import Answer, CliMachine
from pty_terminal import TIMEOUT_S

REVIEWER = "---\nname: reviewer\ndescription: reviews\ntools: Read\n---\nYou review."


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "name": tool, "input": arguments}


def script(cli: CliMachine, *answers: dict[str, Any] | str, lanes: dict[str, str] | None = None) -> str:
    events = [{"type": "text", "content": one} if isinstance(one, str) else one for one in answers]
    others = [
        {"marker": marker, "responses": [{"events": [{"type": "text", "content": text}]}]}
        for marker, text in (lanes or {}).items()
    ]
    path = cli.root / "script.json"
    path.write_text(json.dumps({"responses": [{"events": [event]} for event in events], "lanes": others}))
    return f"scripted/{path}"


def run(cli: CliMachine, model: str, prompt: str, *words: str) -> Answer:
    return cli.call("run", "-a", "native", "-m", model, "-d", str(cli.project), "-p", prompt, *words)


def chat(cli: CliMachine, model: str, text: str) -> str:
    words = ("chat", "-a", "native", "-m", model, "-d", str(cli.project), "--permissions", "full-access")
    process = cli.spawn(*words, stdin=subprocess.PIPE)
    out, err = process.communicate(text.encode(), TIMEOUT_S)
    assert (process.returncode, err.decode()) == (0, "")
    return out.decode()


def events(cli: CliMachine, kind: str) -> list[dict[str, Any]]:
    return [event for event in cli.log() if event["type"] == kind]


def said(cli: CliMachine) -> list[str]:
    return [event["text"] for event in events(cli, "Message") if event["role"] == "user"]


def output(cli: CliMachine, tool: str) -> str:
    [end] = [event for event in events(cli, "ToolEnd") if event["tool_name"] == tool]
    return str(end["output"])


def test_a_command_of_the_user_is_a_prompt_in_run_and_chat(cli: CliMachine) -> None:
    put(
        cli.home / ".config/harness/commands/greet.md",
        "---\ndescription: greets\n---\nSay hello to $ARGUMENTS.",
    )
    model = script(cli, "Hello.")
    assert run(cli, model, "/greet the whale").code == 0
    assert said(cli) == ["Say hello to the whale."]


def test_a_chat_lists_and_sends_commands(cli: CliMachine) -> None:
    put(
        cli.home / ".config/harness/commands/greet.md",
        "---\ndescription: greets\n---\nSay hello to $ARGUMENTS.",
    )
    out = chat(cli, script(cli, "Hello."), "/help\n/greet the fox\n/nope\n/quit\n")
    assert "/greet               greets" in out
    assert "unknown command: /nope" in out
    assert said(cli) == ["Say hello to the fox."]


def test_what_an_untrusted_folder_brings_does_not_count_and_is_said(cli: CliMachine) -> None:
    put(cli.project / ".harness/commands/greet.md", "Say hello.")
    put(
        cli.project / ".harness/hooks.json",
        '{"hooks": {"PreToolUse": [{"hooks": [{"command": ": > ran"}]}]}}',
    )
    model = script(cli, call("list"), "Done.")
    assert run(cli, model, "/greet").code == 0
    assert said(cli) == ["/greet"]
    assert not (cli.project / "ran").exists()
    assert any("`harness trust` shows them" in event["message"] for event in events(cli, "Info"))


def test_a_sub_agent_of_a_kind_has_its_own_words_and_tools(cli: CliMachine) -> None:
    put(cli.project / ".claude/agents/reviewer.md", REVIEWER)
    assert cli.call("trust", str(cli.project), "--yes").code == 0
    lanes = {"REVIEW-THIS": "It is fine."}
    model = script(cli, call("agent", task="REVIEW-THIS", subagent_type="reviewer"), "Done.", lanes=lanes)
    assert run(cli, model, "go").code == 0
    assert output(cli, "agent") == "It is fine."
    starts = events(cli, "SessionStart")
    assert [start.get("name", "") for start in starts] == ["", "reviewer"]


def test_an_unknown_kind_is_refused_with_those_there_are(cli: CliMachine) -> None:
    model = script(cli, call("agent", task="x", type="nobody"), "Done.")
    assert run(cli, model, "go").code == 0
    assert output(cli, "agent") == "there is no sub-agent of the type 'nobody' (there are: explore)"


def test_a_small_model_explores(cli: CliMachine) -> None:
    small = cli.root / "small.json"
    small.write_text('{"responses": [{"events": [{"type": "text", "content": "Found."}]}]}')
    put(cli.home / ".config/harness/config.toml", f'[native]\nsmall_model = "scripted/{small}"\n')
    model = script(cli, call("agent", task="look", type="explore"), "Done.")
    assert run(cli, model, "go").code == 0
    assert output(cli, "agent") == "Found."
    assert [start["model"] for start in events(cli, "SessionStart")] == [model, f"scripted/{small}"]


def test_hooks_of_the_user_hold_in_both_doors(cli: CliMachine) -> None:
    hook = {"matcher": "bash", "hooks": [{"type": "command", "command": "echo never >&2; exit 2"}]}
    put(cli.home / ".config/harness/hooks.json", json.dumps({"hooks": {"PreToolUse": [hook]}}))
    model = script(cli, call("bash", command="touch ran"), "Done.")
    assert run(cli, model, "go").code == 0
    chat(cli, model, "go\n/quit\n")
    refusals = [
        event["output"]
        for path in sorted(cli.sessions.glob("*.ndjson"))
        for event in map(json.loads, path.read_text().splitlines())
        if event["type"] == "ToolEnd"
    ]
    assert len(refusals) == 2
    assert all("a hook refuses it: never" in text for text in refusals)
    assert not (cli.project / "ran").exists()


def test_checks_are_shown_after_a_change(cli: CliMachine) -> None:
    put(
        cli.home / ".config/harness/config.toml",
        '[checks."*.txt"]\ncommand = "read line < {files}; echo 1:$line; exit 1"\n',
    )
    model = script(cli, call("write", filePath="a.txt", content="bad\n"), "Done.")
    assert run(cli, model, "go").code == 0
    assert output(cli, "write").endswith("[found after this change]\n1:bad")


def test_no_check_runs_for_a_change_that_is_not_allowed(cli: CliMachine) -> None:
    """A linter loads what the folder's settings name, so that a change which is only proposed must not start it."""
    put(cli.home / ".config/harness/config.toml", '[checks."*.txt"]\ncommand = ": > ran"\n')
    put(cli.project / "a.txt", "as it was\n")
    write = call("write", filePath="a.txt", content="bad\n")
    model = script(cli, call("read", filePath="a.txt"), write, "Done.")
    run(cli, model, "go", "--permissions", "ask", "--on-ask", "deny")
    assert [event["by"] for event in events(cli, "RelayReply")] == ["policy"]
    assert (cli.project / "a.txt").read_text() == "as it was\n"
    assert not (cli.project / "ran").exists()


def test_another_model_answers_where_the_first_does_not(cli: CliMachine) -> None:
    other = cli.root / "other.json"
    other.write_text('{"responses": [{"events": [{"type": "text", "content": "Here I am."}]}]}')
    put(cli.home / ".config/harness/config.toml", f'[native]\nfallback_models = ["scripted/{other}"]\n')
    broken = cli.root / "broken.toml"
    broken.write_text('turns = [{ error = "overloaded", code = "overloaded_error" }]\n')
    assert run(cli, f"scripted/{broken}", "go").code == 0
    assert any("is asked instead" in event["message"] for event in events(cli, "Warning"))
    assert events(cli, "Result")[-1]["text"] == "Here I am."
