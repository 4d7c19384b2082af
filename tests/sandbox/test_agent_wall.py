"""An agent program in a sandbox: what it sees of the home, what it leaves, and what the log says of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.agents.registry import load, names
from harness.contracts.request import Request
from harness.errors import UsageError
from harness.events import Event, Result, SessionStart, Warning
from harness.log.stores.memory import MemoryStore
from harness.runs.agent_wall import agent_wall
from harness.runs.launch import prepare
from harness.runs.run import start
from harness.sandbox.ladder import best_wall
from lacking import lacking


class Place:
    """A home, a workspace in it, and a program that a test writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Not in /tmp, which a wall replaces: what is there must be refused, not missing.
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(dir="/var/tmp", prefix="harness-agent-")))
        self.home, self.work = self.folder / "home", self.folder / "home/work"
        self.work.mkdir(parents=True)
        (self.home / "secret").write_text("the secret")
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(self.home))

    def program(self, text: str) -> str:
        path = self.home / "programs/agent"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def run(self, text: str) -> list[Event]:
        request = Request(
            agent="generic", prompt="go", cwd=str(self.work), binary=self.program(text), sandbox=True
        )
        return list(start(request, store=MemoryStore()))


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if (rung := best_wall()) is None or not rung.hides:
        pytest.skip(lacking("wall of mounts"))
    place = Place(monkeypatch)
    yield place
    shutil.rmtree(place.folder)


def test_a_program_is_confined_and_the_log_says_by_what(place: Place) -> None:
    outside = place.folder / "outside"
    events = place.run(
        f'cat "$HOME/secret"; echo x > {outside}; echo x > .mcp.json; mkdir .claude; echo in > inside.txt; cat inside.txt'
    )
    rung = best_wall()
    assert rung is not None
    assert [event.sandbox for event in events if isinstance(event, SessionStart)] == [rung.name]
    result = events[-1]
    assert isinstance(result, Result)
    assert result.success
    assert "the secret" not in str(events)
    assert not outside.exists()
    assert os.listdir(place.work) == ["inside.txt"]


def test_what_had_to_be_switched_off_is_a_warning_at_the_end(place: Place) -> None:
    if not shutil.which("git"):
        pytest.skip(lacking("git"))
    events = place.run("git init -q sub; mkdir -p sub/.git/hooks; echo evil > sub/.git/hooks/pre-commit")
    warnings = [event.message for event in events if isinstance(event, Warning) and event.code == "sandbox"]
    assert [text.partition(" was switched off")[0] for text in warnings] == [f"{place.work}/sub/.git"]
    assert isinstance(events[-1], Result)


def test_of_the_home_only_what_is_needed_is_seen(place: Place) -> None:
    home = place.home
    for name in (".local/bin", ".nvm/v1/bin", ".nvm/v1/lib", ".docker/bin", ".ssh", "tools"):
        (home / name).mkdir(parents=True)
    (home / ".gitconfig").touch()
    (home / "tools/claude").write_text("#!/bin/sh\n")
    (home / ".local/bin/claude").symlink_to("../../tools/claude")
    path = os.pathsep.join(str(home / name) for name in (".local/bin", ".nvm/v1/bin", ".docker/bin"))
    env = {"HOME": str(home), "PATH": f"{path}:/usr/bin", "CLAUDE_CONFIG_DIR": str(place.folder / "own")}
    wall = agent_wall(
        load("claude"), (str(home / ".local/bin/claude"), "-p", str(home / "secret")), str(place.work), env
    )
    below = {os.path.relpath(name, home) for name in wall.readable}
    assert below == {".gitconfig", ".local/bin", ".nvm/v1", ".docker/bin", "tools", "secret"}
    assert {os.path.relpath(name, place.folder) for name in wall.writable} == {
        "home/.claude",
        "home/.claude.json",
        "own",
    }
    assert (home / ".claude").is_dir()
    assert (place.folder / "own").is_dir()
    assert str(home) in wall.hidden
    assert wall.network == "host"


def test_every_agent_program_says_which_files_are_its_own() -> None:
    programs = [load(name) for name in names()]
    without = {agent.name for agent in programs if agent.work is None and not agent.homes}
    assert without == {"generic", "replay"}


@pytest.mark.parametrize("two_way", [False, True])
def test_both_ways_to_run_a_program_are_confined(place: Place, two_way: bool) -> None:
    request = Request(
        agent="claude",
        prompt="x",
        cwd=str(place.work),
        binary=place.program("echo '9.9.9 (Claude Code)'"),
        two_way=two_way,
        sandbox=True,
    )
    launch = prepare(request)
    assert launch.invocation.wall is not None
    assert launch.invocation.wall.workspaces == (str(place.work),)
    assert (launch.two_way is not None) is two_way


def test_a_conversation_that_cannot_be_confined_is_refused_before_it_begins(place: Place) -> None:
    from harness.clients.conversations.backend import Setup
    from harness.clients.conversations.presets import backing_of, checked

    with pytest.raises(UsageError, match="home directory"):
        checked(Setup(agent="codex", cwd=str(place.home), sandbox=True))
    setup = checked(Setup(agent="codex", cwd=str(place.work), sandbox=True, permission_mode="fullAuto"))
    assert getattr(backing_of(setup), "sandbox") is True  # noqa: B009
