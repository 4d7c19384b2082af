"""A workspace, an agent program and a scripted provider, for tests of runs through a gateway."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.contracts.fixture import LabContext
from harness.contracts.request import GatewayOptions, Request
from harness.events import Event, ModelCall
from harness.lab import LabServer, ScriptRun, load_fixture, parse_script
from harness.log.stores.files import FileStore
from harness.runs.audit import check
from harness.runs.replay_request import recorded_run, replay_request
from harness.runs.run import Run, start

KEY = "sk-ant-real-key-0123456789abcdef"
TURNS: list[Any] = [
    [{"text": "I look."}, {"call": "run", "command": "cat data.txt"}],
    {"call": "run", "command": "echo more > made.txt; cat made.txt"},
    {"text": "Done."},
]


class Place:
    """A workspace, a provider that is scripted, and a store."""

    def __init__(self, folder: Path, lab: LabServer) -> None:
        self.folder = folder
        self.lab = lab
        self.store = FileStore(str(folder / "sessions"))
        self.cwd = folder / "work"
        self.cwd.mkdir()
        (self.cwd / "data.txt").write_text("one\ntwo\n")
        self.script(TURNS)

    def script(self, turns: list[Any]) -> None:
        context = LabContext(url=self.lab.url, home=str(self.folder), cwd=str(self.cwd))
        self.lab.script_run = ScriptRun(parse_script({"turns": turns}), load_fixture("claude"), context)

    def run(self, **options: Any) -> tuple[Run, list[Event]]:
        request = Request(agent="claude", prompt="Go.", cwd=str(self.cwd), gateway=GatewayOptions())
        run = start(options.get("request") or request, store=self.store)
        events: list[Event] = list(run)
        audit = check(self.store, run.id)
        assert not audit.problems, audit.problems
        return run, events

    def replay(self, run: Run, **options: Any) -> tuple[Run, list[Event]]:
        prompt, cwd = options.pop("prompt", None), options.pop("cwd", "")
        request = replay_request(
            recorded_run(self.store, run.id), prompt=prompt, cwd=cwd, options=GatewayOptions(**options)
        )
        return self.run(request=request)


def calls_of(events: Iterable[object]) -> list[ModelCall]:
    return [event for event in events if isinstance(event, ModelCall)]
