"""Slash commands of agents: as real programs list them, and as their files have them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.agents import registry
from harness.clients.workspaces.prompt_commands import agent_commands
from harness.log.raw import RawOutput, RawWriter
from harness.server.api.schemas import CommandChoice

RECORDINGS = Path(__file__).parents[2] / "agents"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return tmp_path / "home"


def raw_of(tmp_path: Path, *lines: bytes) -> str:
    path = str(tmp_path / "log.raw")
    writer = RawWriter(path)
    for line in lines:
        writer.write(RawOutput(at_ms=1, stream="stdout", data=line))
    writer.close()
    return path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(found: list[CommandChoice]) -> list[str]:
    return [one.name for one in found]


@pytest.mark.parametrize(
    ("case", "some"),
    [
        ("claude/2.1.325/hello", {"compact", "context", "greet", "security-review"}),
        ("qwen/0.24.4/hello", {"compress", "init"}),
    ],
)
def test_what_a_program_lists_when_it_begins(tmp_path: Path, case: str, some: set[str]) -> None:
    data = (RECORDINGS / case / "stdout.jsonl").read_bytes()
    found = agent_commands(None, "", raw_path=raw_of(tmp_path, data))
    assert some <= {one.name for one in found}
    assert all(one.kind == "command" and not one.text for one in found)
    assert not any(one.name.startswith("_") for one in found)


def test_lists_of_protocols_have_descriptions(tmp_path: Path) -> None:
    acp = (
        b'{"method":"session/update","params":{"update":{"sessionUpdate":"available_commands_update",'
        b'"availableCommands":[{"name":"init","description":"Look around"},{"name":"bad name"},{"name":3}]}}}'
    )
    control = (
        b'{"type":"control_response","response":{"response":{"commands":'
        b'[{"name":"/review","description":"Look at\\n it","argumentHint":"[n]"}]}}}'
    )
    plain = b'{"type":"system","slash_commands":["review","other"]}'
    found = agent_commands(None, "", raw_path=raw_of(tmp_path, acp, control, plain, b'"availableCommands" {'))
    assert [(one.name, one.description) for one in found] == [
        ("init", "Look around"),
        ("other", ""),
        ("review", "Look at it"),
    ]


def test_files_are_commands_that_the_agent_takes_or_texts_to_send(tmp_path: Path, home: Path) -> None:
    project = tmp_path / "project"
    put(home / ".claude/commands/mine.md", "Do it\nand more")
    put(
        project / ".claude/commands/git/tidy.md",
        "---\ndescription: 'Tidy up'\nmodel: x\n---\nTidy $ARGUMENTS\n",
    )
    put(project / ".gemini/commands/plan.toml", 'description = "Make a plan"\nprompt = "Plan {{args}}"\n')
    put(project / ".gemini/commands/broken.toml", "description =")
    put(home / ".codex/prompts/fix.md", "---\ndescription: Repair\n---\n\nRepair $1\n")
    claude = agent_commands(registry.load("claude"), str(project))
    assert claude == [
        CommandChoice("command", "git:tidy", "Tidy up", ""),
        CommandChoice("command", "mine", "Do it", ""),
    ]
    assert agent_commands(registry.load("gemini"), str(project)) == [
        CommandChoice("command", "plan", "Make a plan", "")
    ]
    assert agent_commands(registry.load("codex"), str(project)) == [
        CommandChoice("template", "fix", "Repair", "Repair $1")
    ]


def test_the_built_in_agent_has_those_that_count_for_it(tmp_path: Path, home: Path) -> None:
    project = tmp_path / "project"
    put(home / ".claude/commands/mine.md", "Do it\nand more")
    put(project / ".harness/commands/theirs.md", "Whatever nobody trusts")
    found = agent_commands(registry.load("native"), str(project))
    assert [(one.kind, one.name) for one in found] == [("command", "compact"), ("command", "mine")]


def test_no_link_is_followed_and_no_strange_name_is_a_command(tmp_path: Path) -> None:
    project = tmp_path / "project"
    put(project / ".claude/commands/good.md", "good")
    put(project / ".claude/commands/bad name.md", "bad")
    put(project / ".claude/commands/-x.md", "bad")
    put(tmp_path / "secret.md", "secret")
    os.symlink(tmp_path / "secret.md", project / ".claude/commands/secret.md")
    os.symlink(tmp_path, project / ".claude/commands/elsewhere")
    os.mkfifo(project / ".claude/commands/pipe.md")
    assert names(agent_commands(registry.load("claude"), str(project))) == ["good"]


def test_what_the_stream_lists_gets_the_description_of_its_file(tmp_path: Path) -> None:
    project = tmp_path / "project"
    put(project / ".claude/commands/greet.md", "---\ndescription: Say hello\n---\nHello\n")
    raw = raw_of(tmp_path, b'{"type":"system","subtype":"init","slash_commands":["greet","compact"]}')
    found = agent_commands(registry.load("claude"), str(project), raw)
    assert [(one.name, one.description) for one in found] == [("compact", ""), ("greet", "Say hello")]
    assert agent_commands(registry.load("claude"), "", str(tmp_path / "missing.raw")) == []
