"""The built-in agents behind a gateway: a process of their own, recorded, played again and continued like any program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway_place import calls_of
from harness.contracts.request import GatewayOptions, Request
from harness.errors import UsageError
from harness.events import Error, Event, SessionStart, ToolEnd, Warning
from harness.gateway.tape import tape_lines
from harness.log.stores.files import FileStore
from harness.runs.audit import check
from harness.runs.replay_request import recorded_entries, recorded_run, recorded_tape, replay_request
from harness.runs.run import Run, start
from harness.sandbox.ladder import best_wall
from harness.sandbox.rungs import NAMESPACES

pytest.importorskip("httpx", reason="the built-in agents ask models with httpx: pip install httpx")
CHILD = "look at it"


@pytest.fixture(autouse=True)
def lone_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "name": tool, "input": arguments}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


WORK = [
    [text("I look."), call("bash", command="cat data.txt"), call("read", filePath="data.txt")],
    [call("agent", prompt=CHILD, description="a look")],
    [call("bash", command="echo more >> made.txt; cat made.txt")],
    [text("Done.")],
]


class Bench:
    """A workspace, scripts, and a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = FileStore(str(folder / "sessions"))
        self.cwd = folder / "work"
        self.cwd.mkdir()
        (self.cwd / "data.txt").write_text("one\ntwo\n")

    def script(self, name: str, *answers: list[dict[str, Any]]) -> str:
        lane = {"marker": CHILD, "responses": [{"events": [text("It is fine.")]}]}
        path = self.folder / name
        responses = [{"events": events} for events in answers]
        path.write_bytes(msgspec.json.encode({"responses": responses, "lanes": [lane]}))
        return f"scripted/{path}"

    def request(self, **options: Any) -> Request:
        model = options.pop("model", "") or self.script("work.json", *WORK)
        usual = {"agent": "native", "prompt": "Go.", "cwd": str(self.cwd), "gateway": GatewayOptions()}
        return Request(model=model, **{**usual, **options})

    def run(self, request: Request) -> tuple[Run, list[Event]]:
        run = start(request, store=self.store)
        events: list[Event] = list(run)
        audit = check(self.store, run.id)
        assert not audit.problems, audit.problems
        assert not audit.is_original
        return run, events

    def again(self, run: Run, **options: Any) -> Request:
        model = options.pop("model", "")
        recording = recorded_run(self.store, run.id)
        return replay_request(recording, model=model, options=GatewayOptions(**options))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def outputs(events: list[Event]) -> list[str]:
    return [str(event.output) for event in events if isinstance(event, ToolEnd)]


def told(events: list[Event]) -> list[str]:
    return [what for one in calls_of(events) for what in one.differs]


def test_the_built_in_agent_is_recorded_and_played_again(bench: Bench) -> None:
    run, events = bench.run(bench.request())
    result = run.wait()
    problems = [one for one in events if isinstance(one, Error | Warning)]
    assert (result.outcome, result.text) == ("completed", "Done."), problems
    assert [start.agent for start in events if isinstance(start, SessionStart)] == ["native", "native"]
    calls = calls_of(events)
    assert [call.origin for call in calls] == ["translated"] * 5  # four of its own, one of the sub-agent
    assert len({call.conversation for call in calls}) == 2
    assert (bench.cwd / "made.txt").read_text() == "more\n"
    (bench.cwd / "made.txt").unlink()
    Path(bench.folder / "work.json").unlink()  # nobody can be asked any more
    played, again = bench.run(bench.again(run, is_strict=True))
    assert played.wait().outcome == "completed"
    assert outputs(again) == outputs(events)
    assert {call.origin for call in calls_of(again)} == {"recording"}
    assert told(again) == []
    assert played.wait().usage is None


@pytest.mark.skipif(
    best_wall() is not NAMESPACES,
    reason="this system gives no namespaces to its users: `sysctl kernel.apparmor_restrict_unprivileged_userns=0` "
    "(Ubuntu), or `sysctl kernel.unprivileged_userns_clone=1` (Debian), as root",
)
def test_it_is_sealed_like_any_program(bench: Bench) -> None:
    run, _ = bench.run(bench.request())
    (bench.cwd / "made.txt").unlink()
    request = bench.again(run)
    played, events = bench.run(replace(request, sealed="write"))
    assert (played.wait().outcome, told(events)) == ("completed", [])
    assert (bench.cwd / "made.txt").read_text() == "more\n"
    outside = bench.folder / "outside.txt"
    model = bench.script("out.json", [call("bash", command=f"echo x > '{outside}'; ls ~")], [text("Done.")])
    _, events = bench.run(bench.request(model=model, sealed="write"))
    assert not outside.exists()


def test_another_model_goes_on_from_a_step(bench: Bench) -> None:
    run, _ = bench.run(bench.request())
    (bench.cwd / "made.txt").unlink()
    other = bench.script("other.json", [text("Another end.")])
    forked, events = bench.run(bench.again(run, fork_at=2, model=other))
    assert forked.wait().text == "Another end."
    assert [call.origin for call in calls_of(events)] == ["recording"] * 3 + ["translated"]
    assert not (bench.cwd / "made.txt").exists()


def test_a_changed_file_is_told_at_its_step(bench: Bench) -> None:
    run, _ = bench.run(bench.request())
    (bench.cwd / "made.txt").unlink()
    (bench.cwd / "data.txt").write_text("one\nTWO\n")
    _, events = bench.run(bench.again(run))
    assert len(told(events)) == 2  # the command, and the read
    assert all("two" in one and "TWO" in one for one in told(events))


def test_a_tape_of_it_is_played_in_another_folder(bench: Bench) -> None:
    run, _ = bench.run(bench.request())
    tape = bench.folder / "native.tape"
    tape.write_bytes(b"".join(tape_lines(recorded_entries(recorded_run(bench.store, run.id)))))
    elsewhere = bench.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data.txt").write_text("one\ntwo\n")
    request = replay_request(recorded_tape(str(tape)), cwd=str(elsewhere))
    played, events = bench.run(request)
    assert (played.wait().outcome, told(events)) == ("completed", [])
    assert (elsewhere / "made.txt").read_text() == "more\n"


def test_what_it_asks_is_refused_since_nobody_can_answer(bench: Bench) -> None:
    _, events = bench.run(bench.request(permissions="ask", on_ask="wait"))
    assert not (bench.cwd / "made.txt").exists()
    assert any("refused" in one or "denied" in one or "declined" in one for one in outputs(events))


def test_a_model_of_another_provider_is_refused_in_words(bench: Bench) -> None:
    config = bench.folder / "home" / "harness"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[native]\nfallback_models = ["openai/gpt-5.5"]\n')
    run = start(bench.request(), store=bench.store)
    events = list(run)
    assert run.wait().outcome == "spawn_failed"
    [error] = [event for event in events if isinstance(event, Error)]
    assert "openai/gpt-5.5 cannot be asked in this run: its gateway asks scripted alone" in error.message


def test_without_a_model_it_is_said_before_anything_starts(bench: Bench) -> None:
    with pytest.raises(UsageError, match="not the name of a model"):
        start(bench.request(model="sonnet"), store=bench.store)
    with pytest.raises(UsageError, match="cannot be pointed at a gateway"):
        start(bench.request(agent="remote"), store=bench.store)
    assert list(bench.store.list()) == []


def test_the_recursive_model_is_played_again(bench: Bench) -> None:
    (bench.folder / "long.txt").write_text("needle in line 1\n" * 50)
    code = "```python\nprint(context.count('needle'))\n```"
    model = bench.script("rlm.json", [text(code)], [text("```python\nFINAL('50 needles')\n```")])
    request = bench.request(agent="rlm", model=model, context=str(bench.folder / "long.txt"))
    run, events = bench.run(request)
    assert run.wait().outcome == "completed", [one for one in events if isinstance(one, Error | Warning)]
    (bench.folder / "rlm.json").unlink()
    played, again = bench.run(bench.again(run, is_strict=True))
    assert (played.wait().outcome, played.wait().text) == ("completed", run.wait().text)
    assert told(again) == []
