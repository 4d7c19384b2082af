"""The sandbox runner, and runs that happen there and are written here, whatever the connection does."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_world import PATIENCE_S, ServingWorld, events_of, is_done

from harness.events import Relay, Result, SessionStart, TextDelta, ToolEnd
from harness.interfaces.client import PlainClient
from harness.interfaces.runner.app import Runner
from harness.interfaces.server.guard import Guard
from harness.interfaces.server.serving import Serving, bind
from harness.log.stores.memory import MemoryStore
from harness.sources.request import Request
from harness.sources.run import Run, start

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "echo from the sandbox"}}


class RunnerWorld(ServingWorld):
    @contextmanager
    def running(self) -> Iterator[RunnerWorld]:
        listening = bind("127.0.0.1", 0)
        self.port = listening.getsockname()[1]
        runner = Runner(self.store, str(self.folder))
        guard = Guard(runner.app(), access=self.access, hosts=[self.host], cookie_name="x")
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
    """A wire to the runner that is cut again and again, after ever so many bytes."""

    def __init__(self, port: int, most_bytes: int) -> None:
        self._port = port
        self._most_bytes = most_bytes
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
        left = self._most_bytes if request.startswith(b"GET") else 1 << 30
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


def test_a_runner_that_cannot_be_reached_or_refuses_is_an_outcome(runner: RunnerWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    run = start(runner.request("x", port), store=MemoryStore())
    assert run.wait().outcome == "spawn_failed"
    wrong = start(
        Request(agent="remote", prompt="go", extra_args=("--runner", runner.url)), store=MemoryStore()
    )
    assert wrong.wait().outcome == "spawn_failed"
    assert any("401" in getattr(event, "message", "") for event in wrong)


def test_the_server_drives_a_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = RunnerWorld(tmp_path / "there", MemoryStore())
    (tmp_path / "there").mkdir(exist_ok=True)
    (tmp_path / "here").mkdir()
    with runner.running(), ServingWorld(tmp_path / "here").serving_now() as world:
        monkeypatch.setenv("HARNESS_RUNNER", runner.url)
        monkeypatch.setenv("HARNESS_RUNNER_TOKEN", runner.access.token)
        session = world.create(agent="remote", model=runner.script("From afar."), prompt="go")
        with PlainClient(world.url, token=world.access.token, session=session["id"]) as client:
            state = client.until(is_done, PATIENCE_S)
        assert [one["content"] for one in state["messages"]] == ["go", "From afar."]
