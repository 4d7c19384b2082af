"""The recursive language model on the command line: a text of any length, a question, an answer."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cli_machine import CliMachine, wait_until


def code(*lines: str) -> dict[str, Any]:
    """A response of the scripted model: one block of Python."""
    body = "\n".join(lines)
    return {"events": [{"type": "text", "content": f"```python\n{body}\n```"}]}


def script(cli: CliMachine, *responses: dict[str, Any]) -> str:
    path = cli.project / "script.json"
    path.write_text(json.dumps({"responses": responses}))
    return f"scripted/{path}"


def run(cli: CliMachine, *words: str) -> tuple[str, ...]:
    return ("run", "--agent", "rlm", "--prompt", "how does it end?", "--cwd", str(cli.project), *words)


@pytest.fixture
def text(cli: CliMachine) -> Path:
    path = cli.project / "book.txt"
    path.write_text("Call me Ishmael. " + "Water. " * 1000 + "The end.")
    return path


def test_a_question_about_a_file_is_answered(cli: CliMachine, text: Path) -> None:
    model = script(cli, code("print(len(context))"), code("FINAL(context[-8:])"))
    answer = cli.call(*run(cli, "--context", str(text), "--model", model, "--format", "result"))
    assert (answer.code, answer.err) == (0, "")
    assert answer.data["result"] == "The end."
    kinds = [event["type"] for event in cli.log()]
    assert kinds.count("ReplInput") == kinds.count("ReplOutput") == 2
    assert cli.metadata()["agent_name"] == "rlm"


def test_the_events_are_those_of_a_recursive_model(cli: CliMachine, text: Path) -> None:
    model = script(cli, code("FINAL(llm_query('shout', 'the end'))"), code("FINAL(context.upper())"))
    words = ("--context", str(text), "--model", model, "--format", "events")
    answer = cli.call(*run(cli, *words), "--", "--max-depth", "1")
    assert answer.types == [
        *("harness_start", "text", "repl_input", "repl_progress", "harness_start", "text", "repl_input"),
        *("repl_output", "text", "harness_end", "repl_progress", "repl_output", "text", "harness_end"),
    ]
    outer, inner = (event for event in answer.events if event["type"] == "repl_input")
    child = answer.events[4]
    assert (child["parentId"], child["depth"], child["runId"]) == (outer["id"], 1, inner["runId"])
    assert answer.events[-2]["content"] == "THE END"
    assert answer.events[-1]["reason"] == "final"


def test_turns_are_iterations_and_using_them_up_is_no_success(cli: CliMachine) -> None:
    model = script(cli, code("x = 1"), code("FINAL(x)"))
    answer = cli.call(*run(cli, "--model", model, "--max-turns", "1", "--format", "log"))
    assert (answer.code, answer.events[-1]["outcome"]) == (1, "limit_exceeded")


def test_a_context_that_is_not_there_is_reported_in_one_line(cli: CliMachine) -> None:
    answer = cli.call(*run(cli, "--context", "/no/such/book", "--model", script(cli), "--format", "log"))
    [error] = [event for event in answer.events if event["type"] == "Error"]
    assert error["message"].startswith("cannot read the context /no/such/book: No such file or directory")
    assert answer.events[-1]["outcome"] == "spawn_failed"


def test_an_unknown_name_is_reported_with_the_known_ones(cli: CliMachine) -> None:
    answer = cli.call(*run(cli, "--model", script(cli), "--format", "log"), "--", "--depth", "3")
    [error] = [event for event in answer.events if event["type"] == "Error"]
    assert "knows no --depth; after -- it takes: --max-depth, --sub-model" in error["message"]


def test_an_interruption_ends_the_repl_and_the_run(cli: CliMachine) -> None:
    endless = code("import os", "print(os.getpid())", "while True: pass")
    process = cli.spawn(*run(cli, "--model", script(cli, endless), "--format", "log"))

    def printed() -> list[dict[str, Any]]:
        events = cli.log() if cli.logs() else []
        return [event for event in events if event["type"] == "ReplProgress"]

    wait_until(printed)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=100)
    assert process.returncode == 130
    assert cli.log()[-1]["outcome"] == "interrupted"
    with pytest.raises(ProcessLookupError):
        os.kill(int(printed()[0]["text"]), 0)
