"""The sandbox runner, and runs that happen there and are written here, whatever the connection does."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.contracts.request import Request
from harness.events import Error, Message, Relay, Result, SessionStart, TextDelta, ToolEnd, Warning
from harness.log.store import read_all
from harness.log.stores.memory import MemoryStore
from harness.runs.remotes.runner_client import RunnerClient
from harness.runs.run import Run, start
from harness.server.runner.app import drop_lost_clients
from live_runner import CALL, Cutter, Forwarder, LiveRunner
from live_server import TIMEOUT_S, events_of


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("HARNESS_RUNNER", "HARNESS_RUNNER_TOKEN", "HARNESS_RUNNER_AGENT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[LiveRunner]:
    with LiveRunner(tmp_path, MemoryStore()).running() as live:
        yield live


def of_the_agent(events: list[Any]) -> list[tuple[str, Any]]:
    """Messages and calls, without ids and times."""
    expected_texts = {TextDelta: "text", ToolEnd: "output", Result: "outcome"}
    return [
        (type(event).__name__, getattr(event, expected_texts[type(event)]))
        for event in events
        if type(event) in expected_texts
    ]


def test_a_run_is_streamed_under_the_six_names_and_can_be_taken_up_anywhere(runner: LiveRunner) -> None:
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


def test_what_cannot_be_is_refused(runner: LiveRunner) -> None:
    with runner.http() as http:
        assert http.post("/runs", json={"agent": "nobody", "prompt": "x"}).status_code == 400
        assert http.post("/runs", json={"agent": "native"}).status_code == 400
        for path in ("cancel", "steer", "reply"):
            body = {"message": "x", "relayId": "x", "approved": True}
            assert http.post(f"/runs/nobody/{path}", json=body).status_code == 404
        assert http.get("/runs/nobody/events").status_code == 404
        assert http.get("/runs").json() == {"runs": []}
    assert httpx.get(f"{runner.url}/runs").status_code == 401


def test_a_remote_run_is_written_here_as_if_it_had_happened_here(runner: LiveRunner) -> None:
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


def test_it_can_be_answered_steered_and_stopped_from_here(runner: LiveRunner) -> None:
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


def test_a_run_that_is_stopped_while_it_starts_ends(runner: LiveRunner) -> None:
    slow = {"type": "tool_call", "name": "bash", "input": {"command": "sleep 60"}}
    with Forwarder(runner.port, renamed=True) as forwarder:
        run = start(runner.request(runner.script([slow], "x"), forwarder.port), store=MemoryStore())
        beginning, _ = forwarder.listening.accept()  # the runner has not seen it yet
        run.cancel()
        stopping, _ = forwarder.listening.accept()
        forwarder.pass_on(stopping).join(TIMEOUT_S)  # the runner knows no such run
        forwarder.begin()
        forwarder.pass_on(beginning)
        assert run.wait().outcome == "interrupted"
    ended = [metadata.outcome for metadata in runner.store.list()]
    assert ended == ["interrupted"]


def wait_for(run: Run, kind: type) -> Any:
    return next(event for event in run if isinstance(event, kind))


# Each lets one whole event through: the first has the prompt of the built-in agent, some 4 kB.
@pytest.mark.parametrize("most_bytes", [5_000, 7_000, 9_999])
def test_a_connection_that_is_cut_again_and_again_loses_and_repeats_nothing(
    runner: LiveRunner, most_bytes: int
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


def test_a_stream_that_is_cut_at_any_byte_is_taken_up_where_it_was(runner: LiveRunner) -> None:
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
    runner: LiveRunner,
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


def test_a_message_over_a_connection_that_is_cut_is_taken_once(runner: LiveRunner) -> None:
    model = runner.script([CALL], "Heard.")
    cutter = Cutter(runner.port, 20, only=b"POST /runs/", times=4)
    run = start(runner.request(model, cutter.port, permissions="agent-default"), store=MemoryStore())
    relay = wait_for(run, Relay)
    run.steer("and this")
    assert run.reply(relay.id, approved=True)
    assert run.wait().outcome == "completed"
    cutter.close()
    assert cutter.cuts == 4
    texts = [event.text for event in run if isinstance(event, Message) and event.role == "user"]
    assert texts == ["go", "and this"]


def test_a_run_of_one_key_is_started_once_also_by_a_restarted_runner(tmp_path: Path) -> None:
    store = MemoryStore()
    live = LiveRunner(tmp_path, store)
    wanted = {"agent": "native", "prompt": "go", "model": live.script("Said."), "key": "my-own-key"}
    with live.running(), live.http() as http, ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda _: http.post("/runs", json=wanted), range(8)))
        assert {answer.json()["runId"] for answer in answers} == {"my-own-key"}
        assert http.get("/runs").json() == {"runs": ["my-own-key"]}
        for bad in ({"key": "no/key"}, {"leaseS": 0}, {"leaseS": -1}):
            assert http.post("/runs", json={**wanted, "key": "other", **bad}).status_code == 400
        list(events_of(iter(http.get("/runs/my-own-key/events").text.split("\n"))))
    with live.running(), live.http() as http:
        refused = http.post("/runs", json=wanted)
        assert refused.status_code == 409
        assert "was started before" in refused.json()["error"]["message"]


def test_a_run_that_is_not_claimed_ends_by_itself(runner: LiveRunner) -> None:
    slow = {"type": "tool_call", "name": "bash", "input": {"command": "sleep 60"}}
    wanted = {"agent": "native", "prompt": "go", "model": runner.script([slow], "x"), "leaseS": 0.2}
    with runner.http() as http:
        run_id = http.post("/runs", json=wanted).json()["runId"]
        deadline_s = time.monotonic() + TIMEOUT_S
        while not runner.store.metadata(run_id).outcome:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        shown_text = list(read_all(runner.store, run_id))
        assert [event.code for event in shown_text if isinstance(event, Warning)] == ["unclaimed"]
        assert of_the_agent(shown_text)[-1] == ("Result", "interrupted")
        short = {"type": "tool_call", "name": "bash", "input": {"command": "sleep 1"}}
        wanted["model"] = runner.script([short], "Claimed.", name="short.json")
        run_id = http.post("/runs", json=wanted).json()["runId"]
        followed = http.get(f"/runs/{run_id}/events").text
        assert '"outcome":"completed"' in followed


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
def test_a_connection_to_a_machine_that_crashed_does_not_claim_a_run_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        drop_lost_clients(listening)
        with socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


def test_what_comes_too_late_for_a_run_is_not_lost_silently(
    runner: LiveRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(client: RunnerClient, run_id: str, action: str, body: dict[str, Any]) -> bool:
        return action != "steer" and send(client, run_id, action, body)

    send = RunnerClient.send
    monkeypatch.setattr(RunnerClient, "send", refuse)  # as a run does that has just ended
    run = start(runner.request(runner.script([CALL], "x"), permissions="agent-default"), store=MemoryStore())
    relay = wait_for(run, Relay)
    run.steer("one more thing")
    assert run.reply(relay.id, approved=True)
    run.wait()
    warnings = [event for event in run if isinstance(event, Warning)]
    assert [warning.code for warning in warnings] == ["not_taken"]
    assert "one more thing" in warnings[0].message


def test_a_runner_that_cannot_be_reached_or_refuses_is_an_outcome(runner: LiveRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    run = start(runner.request("x", port), store=MemoryStore())
    assert run.wait().outcome == "spawn_failed"
    (error,) = errors_of(run)
    assert error.message == (
        f"the runner at http://127.0.0.1:{port} cannot be reached: Connection refused;"
        " is `harness runner` running there, and its port forwarded?"
    )
    wrong = start(
        Request(agent="remote", prompt="go", extra_args=("--runner", runner.url)), store=MemoryStore()
    )
    assert wrong.wait().outcome == "spawn_failed"
    assert any("401" in event.message and "its token" in event.message for event in errors_of(wrong))


def test_a_runner_under_another_name_shows_how_it_can_be_reached(runner: LiveRunner) -> None:
    with Forwarder(runner.port) as forwarder:
        forwarder.begin()
        run = start(runner.request("x", forwarder.port), store=MemoryStore())
        assert run.wait().outcome == "spawn_failed"
    assert any("--allow-remote HOST:PORT" in event.message for event in errors_of(run))


def test_a_runner_is_reached_through_a_port_that_was_forwarded(tmp_path: Path) -> None:
    token = "t" * 43
    (tmp_path / "token").write_text(f"{token}\n")
    (tmp_path / "token").chmod(0o600)
    program = [sys.executable, "-m", "harness", "runner", "--token-file", str(tmp_path / "token")]
    live = LiveRunner(tmp_path, MemoryStore())
    with Forwarder(0) as forwarder:
        names = ["--allow-remote", f"127.0.0.1:{forwarder.port}"]
        with subprocess.Popen(
            [*program, *names], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as runner:
            assert runner.stdout is not None
            forwarder.target = int(runner.stdout.readline().strip().rpartition(":")[2])
            forwarder.begin()
            words = (
                "--runner",
                f"http://127.0.0.1:{forwarder.port}",
                "--token-file",
                str(tmp_path / "token"),
            )
            model = live.script("From the box.")
            run = start(
                Request(agent="remote", prompt="go", model=model, extra_args=words), store=MemoryStore()
            )
            assert run.wait().text == "From the box."
            runner.terminate()


def errors_of(run: Run) -> list[Error]:
    return [event for event in run if isinstance(event, Error)]
