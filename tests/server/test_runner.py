"""The sandbox runner, and runs that happen there and are written here, whatever the connection does."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_world import PATIENCE_S, ServingWorld, events_of, is_done

from harness.events import Error, Message, Relay, Result, SessionStart, TextDelta, ToolEnd, Warning
from harness.interfaces.client import PlainClient
from harness.interfaces.runner.app import Runner
from harness.interfaces.server.guard import Guard
from harness.interfaces.server.names import names_of
from harness.interfaces.server.serving import Serving, bind
from harness.log.store import read_all
from harness.log.stores.memory import MemoryStore
from harness.sources.remotes.runner_client import RunnerClient
from harness.sources.request import Request
from harness.sources.run import Run, start

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "echo from the sandbox"}}


class RunnerWorld(ServingWorld):
    @contextmanager
    def running(self) -> Iterator[RunnerWorld]:
        listening = bind("127.0.0.1", 0)
        self.port = listening.getsockname()[1]
        runner = Runner(self.store, str(self.folder))
        guard = Guard(runner.app(), access=self.access, names=names_of(int(self.host.rpartition(":")[2])))
        ready = threading.Event()
        serving = Serving(guard, listening, ready.set)
        thread = threading.Thread(target=serving.run, daemon=True)
        thread.start()
        assert ready.wait(PATIENCE_S)
        try:
            yield self
        finally:
            serving.stop()
            thread.join(PATIENCE_S)
            listening.close()

    def request(self, model: str, port: int = 0, **more: Any) -> Request:
        words = ("--runner", f"http://127.0.0.1:{port or self.port}")
        return Request(
            agent="remote",
            prompt="go",
            model=model,
            extra_args=(*words, "--token-file", str(self.folder / "server" / "token")),
            **more,
        )


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[RunnerWorld]:
    with RunnerWorld(tmp_path, MemoryStore()).running() as world:
        yield world


def of_the_agent(events: list[Any]) -> list[tuple[str, Any]]:
    """What was said and done, without ids and times."""
    kept = {TextDelta: "text", ToolEnd: "output", Result: "outcome"}
    return [
        (type(event).__name__, getattr(event, kept[type(event)])) for event in events if type(event) in kept
    ]


def test_a_run_is_streamed_under_the_six_names_and_can_be_taken_up_anywhere(runner: RunnerWorld) -> None:
    model = runner.script([{"type": "text", "content": "Look:", "pieces": 2}, CALL], "Done.")
    wanted = {"agent": "native", "prompt": "go", "model": model}
    with runner.http() as http:
        run_id = http.post("/runs", json=wanted).json()["runId"]
        path = f"/runs/{run_id}/events"
        with http.stream("GET", path) as answer:
            whole = list(events_of(answer.iter_lines()))
        names = [name for name, _ in groupby(one["event"] for one in whole if one["event"] != "log")]
        assert names == [
            "run.started",
            "assistant.delta",
            "tool.started",
            "tool.completed",
            "assistant.delta",
            "run.completed",
        ]
        assert [int(one["id"]) for one in whole] == list(range(1, len(whole) + 1))
        first = json.loads(whole[0]["data"])
        assert (first["runId"], first["prompt"]) == (run_id, "go")
        text = "".join(json.loads(one["data"])["text"] for one in whole if one["event"] == "assistant.delta")
        assert text == "Look:Done."
        for cut in range(len(whole)):
            rest = http.get(path, headers={"Last-Event-ID": whole[cut]["id"]}).text
            assert list(events_of(iter(rest.split("\n")))) == whole[cut + 1 :]


def test_what_cannot_be_is_refused(runner: RunnerWorld) -> None:
    with runner.http() as http:
        assert http.post("/runs", json={"agent": "nobody", "prompt": "x"}).status_code == 400
        assert http.post("/runs", json={"agent": "native"}).status_code == 400
        for path in ("cancel", "steer", "reply"):
            body = {"message": "x", "relayId": "x", "approved": True}
            assert http.post(f"/runs/nobody/{path}", json=body).status_code == 404
        assert http.get("/runs/nobody/events").status_code == 404
        assert http.get("/runs").json() == {"runs": []}
    assert httpx.get(f"{runner.url}/runs").status_code == 401


def test_a_remote_run_is_written_here_as_if_it_had_happened_here(runner: RunnerWorld) -> None:
    model = runner.script([{"type": "text", "content": "Look:", "pieces": 2}, CALL], "Done.")
    there = start(Request(agent="native", prompt="go", model=model), store=MemoryStore())
    here = start(runner.request(model), store=MemoryStore())
    home, away = list(there), list(here)
    assert of_the_agent(away) == of_the_agent(home)
    assert [event.seq for event in away] == list(range(len(away)))
    assert {event.run_id for event in away} == {here.id}
    assert isinstance(away[0], SessionStart)
    assert away[0].agent == "native"
    assert here.wait().success


def test_it_can_be_answered_steered_and_stopped_from_here(runner: RunnerWorld) -> None:
    model = runner.script([CALL], "Heard.")
    run = start(runner.request(model, permissions="agent-default"), store=MemoryStore())
    relay = wait_for(run, Relay)
    run.steer("and this")
    assert run.reply(relay.id, approved=True)
    assert not run.reply(relay.id, approved=True)
    assert run.wait().outcome == "completed"
    assert "and this" in [getattr(event, "text", "") for event in run]
    other = start(
        runner.request(runner.script([CALL], "x", name="other.json"), permissions="agent-default"),
        store=MemoryStore(),
    )
    wait_for(other, Relay)
    other.cancel()
    assert other.wait().outcome == "interrupted"


def wait_for(run: Run, kind: type) -> Any:
    return next(event for event in run if isinstance(event, kind))


class Cutter:
    """A wire to the runner that is cut again and again, after ever so many bytes of an answer.

    `only`: answers to requests that begin so; `times`: so often, and never again.
    """

    def __init__(self, port: int, most_bytes: int, only: bytes = b"GET", times: int = 1 << 30) -> None:
        self._port = port
        self._most_bytes = most_bytes
        self._only = only
        self._times = times
        self.cuts = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(near,), daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            near.close()
            return
        request = near.recv(65536).replace(f":{self.port}".encode(), f":{self._port}".encode())
        far.sendall(request)
        threading.Thread(target=_rest, args=(near, far), daemon=True).start()
        is_cut = request.startswith(self._only) and self.cuts < self._times
        left = self._most_bytes if is_cut else 1 << 30
        with suppress(OSError):
            while left > 0 and (data := far.recv(min(4096, left))):
                near.sendall(data)
                left -= len(data)
        if left <= 0:
            self.cuts += 1
        for end in (near, far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # also for the thread that reads from it
            end.close()


def _rest(near: socket.socket, far: socket.socket) -> None:
    try:
        while data := near.recv(65536):
            far.sendall(data)
    except OSError:
        return


@pytest.mark.parametrize("most_bytes", [3_000, 5_000, 9_999])
def test_a_connection_that_is_cut_again_and_again_loses_and_repeats_nothing(
    runner: RunnerWorld, most_bytes: int
) -> None:
    words = " ".join(str(number) for number in range(300))
    model = runner.script([{"type": "text", "content": words, "pieces": 60}, CALL], "Done.")
    cutter = Cutter(runner.port, most_bytes)
    run = start(runner.request(model, cutter.port), store=MemoryStore())
    assert run.wait().success
    cutter.close()
    events = list(run)
    straight = list(start(runner.request(model), store=MemoryStore()))
    assert cutter.cuts > 1
    assert of_the_agent(events) == of_the_agent(straight)
    assert "".join(event.text for event in events if type(event) is TextDelta) == words + "Done."


def test_a_stream_that_is_cut_at_any_byte_is_taken_up_where_it_was(runner: RunnerWorld) -> None:
    model = runner.script([{"type": "text", "content": "Look: é", "pieces": 2}, CALL], "Done.")
    straight = list(start(runner.request(model), store=MemoryStore()))
    with runner.http() as http:
        size = len(http.get(f"/runs/{http.get('/runs').json()['runs'][0]}/events").content)
    for cut in range(1, size + 1_000, 97):  # in the head, in every event, and after the end
        cutter = Cutter(runner.port, cut, times=1)
        events = list(start(runner.request(model, cutter.port), store=MemoryStore()))
        cutter.close()
        assert of_the_agent(events) == of_the_agent(straight), cut
        assert [event.seq for event in events] == list(range(len(events)))


def test_an_answer_to_the_start_that_is_lost_at_any_byte_neither_repeats_nor_abandons_the_run(
    runner: RunnerWorld,
) -> None:
    once = {"type": "tool_call", "name": "bash", "input": {"command": "echo ran >> ran.txt"}}
    model = runner.script([once], "Done.")
    cuts = [1, 9, 40, *range(60, 900, 60)]
    made = 0
    for most_bytes in cuts:
        cutter = Cutter(runner.port, most_bytes, only=b"POST /runs ", times=2)
        run = start(runner.request(model, cutter.port), store=MemoryStore())
        assert run.wait().success
        cutter.close()
        made += cutter.cuts
        assert of_the_agent(list(run))[-1] == ("Result", "completed")
    assert made >= 10
    assert (runner.folder / "ran.txt").read_text() == "ran\n" * len(cuts)
    with runner.http() as http:
        assert len(http.get("/runs").json()["runs"]) == len(cuts)


def test_what_is_said_over_a_wire_that_is_cut_is_heard_once(runner: RunnerWorld) -> None:
    model = runner.script([CALL], "Heard.")
    cutter = Cutter(runner.port, 20, only=b"POST /runs/", times=4)
    run = start(runner.request(model, cutter.port, permissions="agent-default"), store=MemoryStore())
    relay = wait_for(run, Relay)
    run.steer("and this")
    assert run.reply(relay.id, approved=True)
    assert run.wait().outcome == "completed"
    cutter.close()
    assert cutter.cuts == 4
    said = [event.text for event in run if isinstance(event, Message) and event.role == "user"]
    assert said == ["go", "and this"]


def test_a_run_of_one_key_is_begun_once_also_by_a_runner_that_was_started_again(tmp_path: Path) -> None:
    store = MemoryStore()
    world = RunnerWorld(tmp_path, store)
    wanted = {"agent": "native", "prompt": "go", "model": world.script("Said."), "key": "my-own-key"}
    with world.running(), world.http() as http, ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda _: http.post("/runs", json=wanted), range(8)))
        assert {answer.json()["runId"] for answer in answers} == {"my-own-key"}
        assert http.get("/runs").json() == {"runs": ["my-own-key"]}
        for bad in ({"key": "no/key"}, {"leaseS": 0}, {"leaseS": -1}):
            assert http.post("/runs", json={**wanted, "key": "other", **bad}).status_code == 400
        list(events_of(iter(http.get("/runs/my-own-key/events").text.split("\n"))))
    with world.running(), world.http() as http:
        refused = http.post("/runs", json=wanted)
        assert refused.status_code == 409
        assert "was begun before" in refused.json()["error"]["message"]


def test_a_run_that_nobody_claims_ends_by_itself(runner: RunnerWorld) -> None:
    slow = {"type": "tool_call", "name": "bash", "input": {"command": "sleep 60"}}
    wanted = {"agent": "native", "prompt": "go", "model": runner.script([slow], "x"), "leaseS": 0.2}
    with runner.http() as http:
        run_id = http.post("/runs", json=wanted).json()["runId"]
        deadline_s = time.monotonic() + PATIENCE_S
        while not runner.store.metadata(run_id).outcome:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        told = list(read_all(runner.store, run_id))
        assert [event.code for event in told if isinstance(event, Warning)] == ["unclaimed"]
        assert of_the_agent(told)[-1] == ("Result", "interrupted")
        short = {"type": "tool_call", "name": "bash", "input": {"command": "sleep 1"}}
        wanted["model"] = runner.script([short], "Claimed.", name="short.json")
        run_id = http.post("/runs", json=wanted).json()["runId"]
        followed = http.get(f"/runs/{run_id}/events").text
        assert '"outcome":"completed"' in followed


def test_what_comes_too_late_for_a_run_is_not_lost_silently(
    runner: RunnerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(client: RunnerClient, run_id: str, action: str, body: dict[str, Any]) -> bool:
        return action != "steer" and tell(client, run_id, action, body)

    tell = RunnerClient.tell
    monkeypatch.setattr(RunnerClient, "tell", refuse)  # as a run does that has just ended
    run = start(runner.request(runner.script([CALL], "x"), permissions="agent-default"), store=MemoryStore())
    relay = wait_for(run, Relay)
    run.steer("one more thing")
    assert run.reply(relay.id, approved=True)
    run.wait()
    warnings = [event for event in run if isinstance(event, Warning)]
    assert [warning.code for warning in warnings] == ["not_taken"]
    assert "one more thing" in warnings[0].message


def test_a_runner_that_cannot_be_reached_or_refuses_is_an_outcome(runner: RunnerWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    run = start(runner.request("x", port), store=MemoryStore())
    assert run.wait().outcome == "spawn_failed"
    wrong = start(
        Request(agent="remote", prompt="go", extra_args=("--runner", runner.url)), store=MemoryStore()
    )
    assert wrong.wait().outcome == "spawn_failed"
    assert any("401" in event.message and "its token" in event.message for event in errors_of(wrong))


def test_a_runner_under_another_name_says_how_it_can_be_reached(runner: RunnerWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        threading.Thread(target=forward, args=(listening, runner.port), daemon=True).start()
        run = start(runner.request("x", port), store=MemoryStore())
        assert run.wait().outcome == "spawn_failed"
    assert any("--allow-remote HOST:PORT" in event.message for event in errors_of(run))


def errors_of(run: Run) -> list[Error]:
    return [event for event in run if isinstance(event, Error)]


def forward(listening: socket.socket, port: int) -> None:
    """As `ssh -L` and `docker -p` do: nothing in the request is changed."""
    with suppress(OSError):
        while True:
            near, _ = listening.accept()
            far = socket.create_connection(("127.0.0.1", port))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=_rest, args=ends, daemon=True).start()


@contextmanager
def driven(tmp_path: Path, *names: str) -> Iterator[tuple[ServingWorld, RunnerWorld]]:
    """A server with these runners in the user's settings, all at one address."""
    for folder in ("there", "here", "config/harness"):
        (tmp_path / folder).mkdir(parents=True)
    runner = RunnerWorld(tmp_path / "there", MemoryStore())
    with runner.running(), ServingWorld(tmp_path / "here").serving_now() as world:
        token_file = tmp_path / "there" / "server" / "token"
        tables = [f'[runners.{name}]\nurl = "{runner.url}"\ntoken_file = "{token_file}"\n' for name in names]
        (tmp_path / "config" / "harness" / "config.toml").write_text("".join(tables))
        yield world, runner


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("HARNESS_RUNNER", "HARNESS_RUNNER_TOKEN", "HARNESS_RUNNER_AGENT"):
        monkeypatch.delenv(name, raising=False)


def conversation_script(world: ServingWorld, *responses: Any) -> str:
    """Each answer is that to so many that were given before: who forgets repeats himself."""
    model = world.script(*responses)
    path = world.folder / "script.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "goes_by": "conversation"}))
    return model


def test_the_server_drives_a_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with driven(tmp_path) as (world, runner):
        monkeypatch.setenv("HARNESS_RUNNER", runner.url)
        monkeypatch.setenv("HARNESS_RUNNER_TOKEN", runner.access.token)
        session = world.create(agent="remote", model=runner.script("From afar."), prompt="go")
        assert session["runner"] == "environment"
        with PlainClient(world.url, token=world.access.token, session=session["id"]) as client:
            state = client.until(is_done, PATIENCE_S)
        assert [one["content"] for one in state["messages"]] == ["go", "From afar."]


def test_runners_are_offered_where_there_are_some_and_named_by_those_who_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driven(tmp_path) as (world, _runner), world.http() as http:
        offered = http.get("/api/agents").json()
        assert offered["runners"] == []
        assert "remote" not in [agent["name"] for agent in offered["agents"]]
        refused = http.post("/api/sessions", json={"agent": "remote"})
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, "no runner was named")
        (tmp_path / "here" / "harness.toml").write_text('[runners.evil]\nurl = "http://127.0.0.1:1"\n')
        assert http.get("/api/agents").json()["runners"] == []
    with driven(tmp_path / "again", "big", "small") as (world, runner), world.http() as http:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "again" / "config"))
        offered = http.get("/api/agents").json()
        address = {"agent": "native", "url": runner.url, "cwd": ""}
        assert offered["runners"] == [{"name": "big", **address}, {"name": "small", **address}]
        assert "remote" in [agent["name"] for agent in offered["agents"]]
        for wrong in ({}, {"runner": "other"}, {"runner": runner.url}):
            refused = http.post("/api/sessions", json={"agent": "remote", **wrong})
            assert refused.status_code == 400
            assert "big, small" in refused.json()["error"]["hint"]
        made = world.create(agent="remote", runner="small", model=runner.script("Small."), prompt="go")
        assert made["runner"] == "small"
        with PlainClient(world.url, token=world.access.token, session=made["id"]) as client:
            assert client.until(is_done, PATIENCE_S)["messages"][1]["content"] == "Small."


def test_a_conversation_through_a_runner_remembers_what_was_said(tmp_path: Path) -> None:
    with driven(tmp_path, "box") as (world, runner):
        model = conversation_script(runner, "First.", "Second.", "Third.")
        session = world.create(agent="remote", model=model, prompt="one")["id"]
        with PlainClient(world.url, token=world.access.token, session=session) as client:
            for count, prompt in enumerate(("two", "three"), 2):
                client.until(is_done, PATIENCE_S)
                client.send({"type": "submit", "prompt": prompt})
                state = client.until(lambda s, n=count: len(s["runs"]) == n and is_done(s), PATIENCE_S)
        said = [one["content"] for one in state["messages"]]
        assert said == ["one", "First.", "two", "Second.", "three", "Third."]


def test_a_runner_that_is_a_new_one_is_told_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    begin = RunnerClient.start

    def noted(client: RunnerClient, wanted: dict[str, Any]) -> Any:
        asked.append(wanted)
        return begin(client, wanted)

    monkeypatch.setattr(RunnerClient, "start", noted)
    with driven(tmp_path, "box") as (world, runner):
        model = runner.script("First.", "Second.")
        session = world.create(agent="remote", model=model, prompt="one")["id"]
        with PlainClient(world.url, token=world.access.token, session=session) as client:
            client.until(is_done, PATIENCE_S)
            for metadata in list(runner.store.list()):
                runner.store.delete(metadata.session_id)
            client.send({"type": "submit", "prompt": "two"})
            state = client.until(lambda s: len(s["runs"]) == 2 and is_done(s), PATIENCE_S)
    assert state["runs"][1]["status"] == "completed"
    assert [bool(wanted.get("resume")) for wanted in asked] == [False, True, False]
    assert "User: one\n\nAgent: First." in asked[2]["appendSystemPrompt"]
    assert [one["content"] for one in state["messages"]][2] == "two"


def test_a_program_behind_a_runner_goes_on_with_its_own_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Path(__file__).parents[1] / "agents" / "claude" / "2.1.325" / "hello" / "stdout.jsonl"
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] || echo "$@" >> {tmp_path}/argv\ncat {recording}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with driven(tmp_path, "box") as (world, _runner):
        monkeypatch.setenv("HARNESS_RUNNER_AGENT", "native")  # counts for HARNESS_RUNNER alone
        settings = tmp_path / "config" / "harness" / "config.toml"
        settings.write_text(settings.read_text() + 'agent = "claude"\n')
        session = world.create(agent="remote", prompt="one")["id"]
        with PlainClient(world.url, token=world.access.token, session=session) as client:
            client.until(is_done, PATIENCE_S)
            client.send({"type": "submit", "prompt": "two"})
            client.until(lambda s: len(s["runs"]) == 2 and is_done(s), PATIENCE_S)
    own_id = json.loads(recording.read_text().split("\n")[0])["session_id"]
    first, second = (tmp_path / "argv").read_text().splitlines()
    assert "--resume" not in first
    assert f"--resume {own_id}" in second


def test_a_run_in_a_runner_is_steered_and_answered_from_the_page(tmp_path: Path) -> None:
    with driven(tmp_path, "box") as (world, runner):
        session = world.create(agent="remote", model=runner.script([CALL], "Heard."), prompt="go")["id"]
        with PlainClient(world.url, token=world.access.token, session=session) as client:
            state = client.until(
                lambda s: s["capabilities"]["steer"] and any(r["status"] == "pending" for r in s["relays"]),
                PATIENCE_S,
            )
            client.send({"type": "steer", "message": "and this"})
            client.send({"type": "approve", "relayId": state["relays"][0]["id"]})
            state = client.until(is_done, PATIENCE_S)
        said = [one["content"] for one in state["messages"] if one["role"] == "user"]
        assert said == ["go", "and this"]
        assert state["relays"][0]["status"] == "approved"
        assert state["messages"][-1]["content"].endswith("Heard.")
