"""Conversations of a server through a sandbox runner: which one, what it remembers, how it is steered."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from harness.clients.client import PlainClient
from harness.log.stores.memory import MemoryStore
from harness.runs.remotes.runner_client import RunnerClient
from live_runner import CALL, LiveRunner
from live_server import TIMEOUT_S, LiveServer, is_done


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("HARNESS_RUNNER", "HARNESS_RUNNER_TOKEN", "HARNESS_RUNNER_AGENT"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def driven(tmp_path: Path, *names: str) -> Iterator[tuple[LiveServer, LiveRunner]]:
    """A server with these runners in the user's settings, all at one address."""
    for folder in ("there", "here", "config/harness"):
        (tmp_path / folder).mkdir(parents=True)
    runner = LiveRunner(tmp_path / "there", MemoryStore())
    with runner.running(), LiveServer(tmp_path / "here").serving_now() as live:
        token_file = tmp_path / "there" / "server" / "token"
        tables = [f'[runners.{name}]\nurl = "{runner.url}"\ntoken_file = "{token_file}"\n' for name in names]
        (tmp_path / "config" / "harness" / "config.toml").write_text("".join(tables))
        yield live, runner


def conversation_script(live: LiveServer, *responses: Any) -> str:
    """Each answer is that to so many that were given before: who forgets repeats himself."""
    model = live.script(*responses)
    path = live.folder / "script.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "goes_by": "conversation"}))
    return model


def test_the_server_drives_a_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with driven(tmp_path) as (live, runner):
        monkeypatch.setenv("HARNESS_RUNNER", runner.url)
        monkeypatch.setenv("HARNESS_RUNNER_TOKEN", runner.access.token)
        session = live.create(agent="remote", model=runner.script("From afar."), prompt="go")
        assert session["runner"] == "environment"
        with PlainClient(live.url, token=live.access.token, session=session["id"]) as client:
            state = client.until(is_done, TIMEOUT_S)
        assert [one["content"] for one in state["messages"]] == ["go", "From afar."]


def test_runners_are_offered_where_there_are_some_and_named_by_those_who_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driven(tmp_path) as (live, _runner), live.http() as http:
        offered = http.get("/api/agents").json()
        assert offered["runners"] == []
        assert "remote" not in [agent["name"] for agent in offered["agents"]]
        refused = http.post("/api/sessions", json={"agent": "remote"})
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, "no runner was named")
        (tmp_path / "here" / "harness.toml").write_text('[runners.evil]\nurl = "http://127.0.0.1:1"\n')
        assert http.get("/api/agents").json()["runners"] == []
    with driven(tmp_path / "again", "big", "small") as (live, runner), live.http() as http:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "again" / "config"))
        offered = http.get("/api/agents").json()
        address = {"agent": "native", "url": runner.url, "cwd": ""}
        assert offered["runners"] == [{"name": "big", **address}, {"name": "small", **address}]
        assert "remote" in [agent["name"] for agent in offered["agents"]]
        for wrong in ({}, {"runner": "other"}, {"runner": runner.url}):
            refused = http.post("/api/sessions", json={"agent": "remote", **wrong})
            assert refused.status_code == 400
            assert "big, small" in refused.json()["error"]["hint"]
        made = live.create(agent="remote", runner="small", model=runner.script("Small."), prompt="go")
        assert made["runner"] == "small"
        with PlainClient(live.url, token=live.access.token, session=made["id"]) as client:
            assert client.until(is_done, TIMEOUT_S)["messages"][1]["content"] == "Small."


def test_a_conversation_through_a_runner_remembers_the_messages(tmp_path: Path) -> None:
    with driven(tmp_path, "box") as (live, runner):
        model = conversation_script(runner, "First.", "Second.", "Third.")
        session = live.create(agent="remote", model=model, prompt="one")["id"]
        with PlainClient(live.url, token=live.access.token, session=session) as client:
            for count, prompt in enumerate(("two", "three"), 2):
                client.until(is_done, TIMEOUT_S)
                client.send({"type": "submit", "prompt": prompt})
                state = client.until(lambda s, n=count: len(s["runs"]) == n and is_done(s), TIMEOUT_S)
        texts = [one["content"] for one in state["messages"]]
        assert texts == ["one", "First.", "two", "Second.", "three", "Third."]


def test_a_new_runner_gets_the_earlier_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    begin = RunnerClient.start

    def noted(client: RunnerClient, wanted: dict[str, Any]) -> Any:
        asked.append(wanted)
        return begin(client, wanted)

    monkeypatch.setattr(RunnerClient, "start", noted)
    with driven(tmp_path, "box") as (live, runner):
        model = runner.script("First.", "Second.")
        session = live.create(agent="remote", model=model, prompt="one")["id"]
        with PlainClient(live.url, token=live.access.token, session=session) as client:
            client.until(is_done, TIMEOUT_S)
            for metadata in list(runner.store.list()):
                runner.store.delete(metadata.session_id)
            client.send({"type": "submit", "prompt": "two"})
            state = client.until(lambda s: len(s["runs"]) == 2 and is_done(s), TIMEOUT_S)
    assert state["runs"][1]["status"] == "completed"
    assert [bool(wanted.get("resume")) for wanted in asked] == [False, True, False]
    assert "User: one\n\nAgent: First." in asked[2]["appendSystemPrompt"]
    assert [one["content"] for one in state["messages"]][2] == "two"


def test_a_program_behind_a_runner_continues_its_own_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Path(__file__).parents[1] / "agents" / "claude" / "2.1.325" / "hello" / "stdout.jsonl"
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || echo "$@" >> {tmp_path}/argv\ncat {quote(str(recording))}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with driven(tmp_path, "box") as (live, _runner):
        monkeypatch.setenv("HARNESS_RUNNER_AGENT", "native")  # counts for HARNESS_RUNNER alone
        settings = tmp_path / "config" / "harness" / "config.toml"
        settings.write_text(settings.read_text() + 'agent = "claude"\n')
        session = live.create(agent="remote", prompt="one")["id"]
        with PlainClient(live.url, token=live.access.token, session=session) as client:
            client.until(is_done, TIMEOUT_S)
            client.send({"type": "submit", "prompt": "two"})
            client.until(lambda s: len(s["runs"]) == 2 and is_done(s), TIMEOUT_S)
    own_id = json.loads(recording.read_text().split("\n")[0])["session_id"]
    first, second = (tmp_path / "argv").read_text().splitlines()
    assert "--resume" not in first
    assert f"--resume {own_id}" in second


def test_a_run_in_a_runner_is_steered_and_answered_from_the_page(tmp_path: Path) -> None:
    with driven(tmp_path, "box") as (live, runner):
        session = live.create(agent="remote", model=runner.script([CALL], "Heard."), prompt="go")["id"]
        with PlainClient(live.url, token=live.access.token, session=session) as client:
            state = client.until(
                lambda s: s["capabilities"]["steer"] and any(r["status"] == "pending" for r in s["relays"]),
                TIMEOUT_S,
            )
            client.send({"type": "steer", "message": "and this"})
            client.send({"type": "approve", "relayId": state["relays"][0]["id"]})
            state = client.until(is_done, TIMEOUT_S)
        texts = [one["content"] for one in state["messages"] if one["role"] == "user"]
        assert texts == ["go", "and this"]
        assert state["relays"][0]["status"] == "approved"
        assert state["messages"][-1]["content"].endswith("Heard.")
