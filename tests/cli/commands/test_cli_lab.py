"""`harness lab`: a scripted model from the command line."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cli_machine import CliMachine

GOOD = 'turns = [[{ text = "Hello." }, { tool = "Bash", input = { command = "ls" } }], { text = "Bye." }]\n'
BY_MEANING = 'turns = [{ call = "read", path = "a.txt" }, { text = "Bye." }]\n'


def script(cli: CliMachine, text: str) -> str:
    path = cli.project / "script.toml"
    path.write_text(text)
    return str(path)


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=100) as reply:
        return json.loads(reply.read())


def test_a_good_script_is_found_good(cli: CliMachine) -> None:
    answer = cli.call("lab", "check", script(cli, GOOD))
    assert (answer.code, answer.out, answer.err) == (0, "script.toml: 2 turns in 1 lane\n", "")
    assert cli.call("lab", "check", script(cli, BY_MEANING), "--agent", "claude").code == 0


@pytest.mark.parametrize(
    ("text", "words", "shown_text"),
    [
        ("turns = [\n { call = 'jump' }]", [], "script.toml:2: turns[0].call: 'jump' is not a call"),
        (GOOD, ["--agent", "nobody"], "unknown agent: nobody"),
        (GOOD, ["--agent", "replay"], "there is no fixture for 'replay'"),
        ('turns = [{ call = "agent", prompt = "x" }]', ["--agent", "pi"], "it has no sub-agents"),
    ],
)
def test_a_bad_script_is_one_clear_line(
    cli: CliMachine, text: str, words: list[str], shown_text: str
) -> None:
    for action in ("check", "serve"):
        answer = cli.call("lab", action, script(cli, text), *words)
        assert (answer.code, answer.out) == (2, "")
        assert shown_text in answer.err
        assert answer.err.count("\n") <= 2


def test_without_an_action_it_shows_which_there_are(cli: CliMachine) -> None:
    answer = cli.call("lab")
    assert answer.code == 2
    assert "serve, check" in answer.err


def test_calls_by_meaning_need_an_agent(cli: CliMachine) -> None:
    answer = cli.call("lab", "serve", script(cli, BY_MEANING))
    assert answer.code == 2
    assert "say for which agent with --agent" in answer.err


def test_the_home_of_the_user_is_not_taken(cli: CliMachine) -> None:
    answer = cli.call("lab", "serve", script(cli, GOOD), "--agent", "pi", "--home", str(cli.home))
    assert answer.code == 2
    assert "--home is your own" in answer.err
    assert list(cli.home.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "shown_text"),
    [
        (["--agent", "pi", "--home", "/dev/null/home"], "--home '/dev/null/home' cannot be created"),
        (["--agent", "pi", "--cwd", "/nowhere"], "there is no folder '/nowhere'"),
        (["--cwd", "/"], "--cwd is for an agent, but no agent was named"),
        (["--home", "/tmp/x"], "--home is for an agent, but no agent was named"),
    ],
)
def test_a_place_that_an_agent_cannot_have_is_one_clear_line(
    cli: CliMachine, words: list[str], shown_text: str
) -> None:
    answer = cli.call("lab", "serve", script(cli, GOOD), *words)
    assert (answer.code, answer.out) == (2, "")
    assert shown_text in answer.err


def test_a_port_in_use_is_one_clear_line(cli: CliMachine) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = cli.call("lab", "serve", script(cli, GOOD), "--port", str(port))
    assert (answer.code, answer.out) == (2, "")
    assert f"port {port} is in use" in answer.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_interrupted(cli: CliMachine, number: signal.Signals) -> None:
    process = cli.spawn("lab", "serve", script(cli, GOOD), "--record", "requests.jsonl")
    assert process.stdout is not None
    assert process.stderr is not None
    shown_text = b"".join(process.stdout.readline() for _ in range(5)).decode()
    found = re.search(r"http://127\.0\.0\.1:\d+", shown_text)
    assert found, shown_text
    message = post(found[0] + "/v1/messages", {"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    assert [block["type"] for block in message["content"]] == ["text", "tool_use"]
    process.send_signal(number)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (0, b"")
    assert err == b"1 POST /v1/messages: answered (main, turn 0)\n"
    start, request, response = map(json.loads, (cli.project / "requests.jsonl").read_text().splitlines())
    assert start["gateway"] == {"mode": "script"}
    assert (request["wire"], request["path"], request["step"]) == ("anthropic", "/v1/messages", 1)
    assert (response["status"], response["origin"]) == (200, "script")


def test_a_full_disk_is_reported_once_and_the_model_still_answers(cli: CliMachine) -> None:
    process = cli.spawn("lab", "serve", script(cli, GOOD), "--record", "/dev/full")
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline().decode())
    assert found
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    for _ in range(2):
        assert post(found[0] + "/v1/messages", body)["content"]
    process.terminate()
    _, err = process.communicate(timeout=100)
    assert err.decode().count("harness: nothing more is recorded: No space left on device\n") == 1


def test_with_an_agent_it_shows_the_environment_and_cleans_up(cli: CliMachine) -> None:
    cli.environ["TMPDIR"] = str(cli.root / "tmp")
    Path(cli.environ["TMPDIR"]).mkdir()
    process = cli.spawn("lab", "serve", script(cli, BY_MEANING), "--agent", "pi")
    assert process.stdout is not None
    lines = []
    while not lines or not lines[-1].startswith("# harness run"):
        lines.append(process.stdout.readline().decode())
        assert lines[-1], "it ended too soon"
    exports = dict(line[7:].strip().split("=", 1) for line in lines if line.startswith("export "))
    home = Path(exports["HOME"])
    assert home.parent == cli.root / "tmp"
    settings = json.loads((home / ".pi/agent/models.json").read_text())
    url = settings["providers"]["lab"]["baseUrl"]
    assert any(url in line for line in lines)
    assert f"cd {cli.project}\n" in lines
    tools = [{"type": "function", "function": {"name": "read"}}]
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": tools}
    call = post(url + "/chat/completions", body)["choices"][0]["message"]["tool_calls"][0]
    assert call["function"] == {"name": "read", "arguments": '{"path":"a.txt"}'}
    process.terminate()
    assert process.wait(100) == 0
    assert list((cli.root / "tmp").iterdir()) == []
