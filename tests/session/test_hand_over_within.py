"""An agent that takes part in a conversation for the first time gets a session of its own, or the reason why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.agents.registry import load
from harness.contracts.request import Request
from harness.events import Event, Message, Result, SessionStart
from harness.histories.handover.delivery import HandoverFolder
from harness.session.hand_over import hand_over_within, handover_directory


def _said() -> list[Event]:
    return [
        SessionStart(run_id="r", session_id="s", agent="codex", timestamp_ms=1_794_000_000_000),
        Message(run_id="r", role="user", text="Paint a zebra.", timestamp_ms=1_794_000_000_001),
        Message(run_id="r", role="assistant", text="It has stripes.", timestamp_ms=1_794_000_000_002),
        Result(run_id="r", success=True, text="It has stripes.", timestamp_ms=1_794_000_000_003),
    ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def _request(home: Path, agent: str, version: str) -> Request:
    program = home / agent
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o700)
    return Request(agent=agent, prompt="And now?", binary=str(program), cwd=str(home))


def test_it_is_written_into_the_store_of_the_agent_and_the_event_says_so(home: Path) -> None:
    request = _request(home, "claude", "2.1.325 (Claude Code)")
    handed = hand_over_within(_said(), load("claude"), request, "thread-1", is_held=True)
    assert not isinstance(handed, str)
    done, briefed = handed
    assert (briefed.form, briefed.agent, done.request.resume) == ("native", "claude", briefed.session_id)
    [file] = briefed.files
    assert Path(file).is_relative_to(home / ".claude" / "projects")
    texts = json.dumps([json.loads(line) for line in Path(file).read_text().splitlines()])
    assert "Paint a zebra." in texts
    assert "It has stripes." in texts
    assert briefed.lost
    [manifest] = HandoverFolder(handover_directory()).all()
    assert (manifest.source, manifest.session_id) == ("thread-1", briefed.session_id)


@pytest.mark.parametrize(
    ("agent", "version", "why"),
    [
        ("claude", "9.9.9", "was not tried with this"),
        ("codex", "codex-cli 0.166.0", "was not tried in a conversation that lasts"),
        ("cline", "3.0.65", ""),
    ],
)
def test_else_it_is_said_why_it_is_briefed(home: Path, agent: str, version: str, why: str) -> None:
    request = _request(home, agent, version)
    handed = hand_over_within(_said(), load(agent), request, "thread-1", is_held=True)
    assert isinstance(handed, str)
    assert why in handed
    assert HandoverFolder(handover_directory()).all() == []


def test_nothing_is_made_of_an_agent_that_is_not_here(home: Path) -> None:
    request = Request(agent="claude", prompt="x", cwd=str(home), env={"PATH": str(home)})
    assert hand_over_within(_said(), load("claude"), request, "thread-1", is_held=True) == ""


def test_the_import_of_an_agent_starts_nothing_that_the_folder_brings(home: Path) -> None:
    """OpenCode loads the plugins of a folder whatever it is started for."""
    (home / "clone/.opencode/plugin").mkdir(parents=True)
    (home / "clone/.opencode/plugin/evil.sh").write_text(f"touch {home}/ran\n")
    request = _request(home, "opencode", "1.18.33")
    program = Path(request.binary)
    program.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo 1.18.33; exit; fi\n'
        f"for f in .opencode/plugin/*.sh; do [ -f $f ] && . ./$f; done\necho began > {home}/began\n"
    )
    request = replace(request, cwd=str(home / "clone"), permissions="full-access")
    handed = hand_over_within(_said(), load("opencode"), request, "thread-1", is_held=True)
    assert isinstance(handed, str)  # nothing was imported, so that it is briefed
    assert "has no session" in handed or "cannot be left out" in handed
    assert not (home / "ran").exists()
