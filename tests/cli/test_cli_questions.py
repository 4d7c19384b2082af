"""Questions of `harness run`: where they are asked, for how long, and that nothing waits without a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from typing import Any

import pytest

import harness
from cli_machine import CliMachine
from harness.events import RelayReply, ToolEnd

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "head -c0 /dev/null > made"}}


def native(cli: CliMachine, *calls: dict[str, object]) -> tuple[str, ...]:
    script = cli.root / "script.json"
    answers = [
        *({"events": [call]} for call in calls or (CALL,)),
        {"events": [{"type": "text", "content": "Done."}]},
    ]
    script.write_text(json.dumps({"responses": answers}))
    asked = ("--model", f"scripted/{script}", "--prompt", "go", "--permissions", "agent-default")
    return ("run", "--agent", "native", *asked)


def replies(cli: CliMachine) -> list[tuple[bool, str]]:
    return [
        (event["approved"], event.get("by", "person")) for event in cli.log() if event["type"] == "RelayReply"
    ]


def test_without_a_person_a_call_is_refused_at_once_with_one_warning(cli: CliMachine) -> None:
    began = time.monotonic()
    answer = cli.call(*native(cli, CALL, CALL, CALL), "--format", "ndjson")
    assert time.monotonic() - began < 60  # three times five minutes before
    assert answer.code == 0
    assert not (cli.project / "made").exists()
    assert replies(cli) == [(False, "policy")] * 3
    shown_text = [event["output"] for event in cli.log() if event["type"] == "ToolEnd"]
    assert all("no user is there to allow it" in text for text in shown_text)
    assert answer.err.count("there is no user to ask: bash was refused") == 1
    assert "--on-ask allow" in answer.err


def test_everything_may_be_allowed_beforehand(cli: CliMachine) -> None:
    assert cli.call(*native(cli), "--on-ask", "allow").code == 0
    assert (cli.project / "made").exists()
    assert replies(cli) == [(True, "policy")]


def test_a_question_may_wait_without_a_limit(cli: CliMachine) -> None:
    assert cli.call(*native(cli), "--on-ask", "wait", "--ask-timeout", "0.2").code == 0
    assert replies(cli) == [(False, "timeout")]
    [shown_text] = [event["output"] for event in cli.log() if event["type"] == "ToolEnd"]
    assert "no answer within 0.2 s" in shown_text


def test_the_policy_holds_for_sub_agents_and_programs_of_a_model_too(cli: CliMachine) -> None:
    script = cli.root / "script.json"
    code = "try:\n    exec('head -c0 /dev/null > made')\nexcept Exception as error:\n    FINAL(str(error))"
    answers = [{"events": [{"type": "text", "content": f"```python\n{code}\n```"}]}]
    script.write_text(json.dumps({"responses": answers}))
    asked = ("--model", f"scripted/{script}", "--prompt", "go", "--permissions", "agent-default")
    answer = cli.call("run", "--agent", "rlm", *asked, "--format", "json")
    assert answer.code == 0
    assert "no user is there to allow it" in answer.out
    assert not (cli.project / "made").exists()


def test_an_agent_program_has_its_own_way_of_asking(cli: CliMachine) -> None:
    cli.install("claude")
    answer = cli.call("run", "--agent", "claude", "--prompt", "x", "--on-ask", "deny", "--temperature", "1")
    assert "does not support --on-ask: dropped" in answer.err
    assert "does not support --temperature: dropped" in answer.err
    answer = cli.call("run", "--agent", "claude", "--prompt", "x")
    assert "--on-ask" not in answer.err


def test_what_is_no_policy_is_refused(cli: CliMachine) -> None:
    answer = cli.call(*native(cli), "--on-ask", "maybe")
    assert answer.code == 2
    assert "deny" in answer.err


def test_arguments_that_are_not_used_are_refused(cli: CliMachine) -> None:
    for more in (("--", "--effort", "high"), ("--extra-args=--x",)):
        answer = cli.call(*native(cli), *more)
        assert answer.code == 2
        assert "takes no arguments after --" in answer.err
    assert cli.logs() == []


def test_a_library_does_the_same_with_a_request(cli: CliMachine) -> None:
    words = native(cli)
    model = words[words.index("--model") + 1]
    for policy, outcome in (("deny", False), ("allow", True)):
        request = harness.Request(
            agent="native",
            prompt="go",
            model=model,
            permissions="agent-default",
            on_ask=policy,  # type: ignore[arg-type]
        )
        run = harness.start(request, store=harness.MemoryStore())
        events = list(run)
        assert [event.by for event in events if isinstance(event, RelayReply)] == ["policy"]
        assert [event.success for event in events if isinstance(event, ToolEnd)] == [outcome]


def at_terminal(cli: CliMachine, typed: str, *words: str, **options: Any) -> tuple[int, str]:
    """A real terminal, in which this is typed when the question is there."""
    pty = pytest.importorskip("pty", reason="there are no terminals here")
    ours, theirs = pty.openpty()
    options = {"stdin": theirs, "stdout": subprocess.DEVNULL, "stderr": theirs, **options}
    process = cli.spawn(*words, **options)
    os.close(theirs)
    texts: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                texts.append(os.read(ours, 4096))
            except OSError:  # the other end of the terminal was closed
                return
            if b"may it" in b"".join(texts) and b"typed" not in texts:
                texts.append(b"typed")
                os.write(ours, typed.encode())

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    code = process.wait(100)
    listener.join(10)
    os.close(ours)
    return code, b"".join(texts).decode()


@pytest.mark.parametrize(("typed", "is_allowed"), [("y\n", True), ("n\n", False), ("not today\n", False)])
def test_the_person_at_the_terminal_is_asked(cli: CliMachine, typed: str, is_allowed: bool) -> None:
    code, texts = at_terminal(cli, typed, *native(cli))
    assert code == 0
    assert "? may it call bash: head -c0 /dev/null > made" in texts
    assert replies(cli) == [(is_allowed, "person")]
    assert (cli.project / "made").exists() is is_allowed
    [shown_text] = [event["output"] for event in cli.log() if event["type"] == "ToolEnd"]
    assert ("not today" in shown_text) is (typed == "not today\n")


def test_to_ask_means_to_ask_here(cli: CliMachine) -> None:
    words = [*native(cli)[:-1], "ask", "--format", "ndjson"]
    output = cli.root / "output"
    with output.open("wb") as file:
        code, texts = at_terminal(cli, "y\n", *words, stdout=file)
    assert code == 0
    assert f"  in {cli.project}" in texts
    assert replies(cli) == [(True, "person")]
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["type"] for line in lines][-1] == "Result"
    assert not any("may it" in line for line in output.read_text().splitlines())


def test_a_prompt_through_a_pipe_leaves_the_terminal_to_answer_at(cli: CliMachine) -> None:
    import fcntl
    import termios

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)

    words = [word for word in native(cli)[:-1] if word not in ("--prompt", "go")]
    read, write = os.pipe()
    os.write(write, b"go")
    os.close(write)
    try:
        code, texts = at_terminal(cli, "y\n", *words, "ask", stdin=read, preexec_fn=take_terminal)
    finally:
        os.close(read)
    assert code == 0, texts
    assert replies(cli) == [(True, "person")]


def test_to_ask_where_no_one_can_answer_is_refused_at_once(cli: CliMachine) -> None:
    words = [*native(cli)[:-1], "ask"]
    answer = cli.call(*words)
    assert answer.code == 2
    assert "needs a terminal to ask in" in answer.err
    assert "harness attach" in answer.err
    assert cli.logs() == []
    assert cli.call(*words, "--on-ask", "deny").code == 0
    assert replies(cli) == [(False, "policy")]
