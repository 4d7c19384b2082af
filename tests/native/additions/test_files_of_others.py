"""Agents and commands as files: ours, and those of Claude Code and OpenCode as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.approvals.trust import judge, trust_folder
from harness.errors import UsageError
from harness.native.additions.agents import EXPLORE, read_agent
from harness.native.additions.commands import CustomCommand, expanded, read_command, typed_command
from harness.native.additions.front_matter import front_matter
from harness.native.additions.places import find_additions

CLAUDE_AGENT = """---
name: reviewer
description: >
  Reviews code
  for mistakes
tools: Read, Grep, Bash, Bash(git push *), Mystery
model: inherit
maxTurns: 7
---

You review code.
"""
OPENCODE_AGENT = """---
description: Writes documents
mode: subagent
model: anthropic/claude-haiku-4-5
tools:
  write: true
  bash: false
permission:
  edit: deny
---
You write documents.
"""


@pytest.fixture(autouse=True)
def lone_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_agent_of_claude_code_has_the_tools_that_it_may_have() -> None:
    read = read_agent("/x/reviewer.md", CLAUDE_AGENT)
    assert read.kind is not None
    assert (read.kind.name, read.kind.description) == ("reviewer", "Reviews code for mistakes")
    assert read.kind.prompt == "You review code."
    assert (read.kind.model, read.kind.most_steps) == ("", 7)
    assert [read.kind.has(tool) for tool in ("read", "grep", "bash", "bash_output")] == [True] * 4
    assert [read.kind.has(tool) for tool in ("write", "edit", "agent")] == [False] * 3
    assert "Bash(git push *), Mystery" in read.notes[0]


def test_an_agent_of_opencode_lacks_what_it_must_not_have() -> None:
    kind = read_agent("/x/writer.md", OPENCODE_AGENT).kind
    assert kind is not None
    assert (kind.name, kind.model) == ("writer", "anthropic/claude-haiku-4-5")
    assert [kind.has(tool) for tool in ("write", "read")] == [True, True]
    assert [kind.has(tool) for tool in ("bash", "bash_output", "edit", "apply_patch")] == [False] * 4


@pytest.mark.parametrize(
    "text",
    [
        "no fields",
        "---\nname: x\n---\nbody",
        "---\ndescription: x\n---\n",
        "---\ndescription: x\nmode: primary\n---\nb",
    ],
)
def test_what_describes_no_sub_agent_is_none(text: str) -> None:
    assert read_agent("/x/a.md", text).kind is None


def test_what_is_refused_in_part_is_refused() -> None:
    text = "---\ndescription: x\ndisallowedTools: Bash(rm *), mcp__lab__echo\n---\nbody"
    kind = read_agent("/x/a.md", text).kind
    assert kind is not None
    assert [kind.has(tool) for tool in ("bash", "lab__echo", "read")] == [False, False, True]


def test_fields_may_be_lists_maps_quotes_and_blocks() -> None:
    fields, body = front_matter(
        '---\na: \'one\'\nb: [x, "y"]\nc:\n  - p\n  - q\nd:\n  k: v\n  "git *": allow\ne: |\n  some\n  text\n---\n\nbody\n'
    )
    assert fields == {
        "a": "one",
        "b": '[x, "y"]',
        "c": ["p", "q"],
        "d": {"k": "v", "git *": "allow"},
        "e": "some text",
    }
    assert body == "body"


def command(body: str, name: str = "review") -> CustomCommand:
    found = read_command(f"/x/{name}.md", name, body)
    assert found is not None
    return found


def test_places_of_a_command_are_filled() -> None:
    both = command("---\ndescription: d\n---\nLook at $1 then $2, of $ARGUMENTS.")
    assert expanded(both, "'a b' c") == "Look at a b then c, of 'a b' c."
    assert expanded(command("Review it."), "src only") == "Review it.\n\nsrc only"
    assert expanded(command("Look at $1 and $2."), "x") == "Look at x and ."


def test_command_lines_are_left_to_the_model_and_nothing_typed_becomes_one() -> None:
    text = expanded(command("State: !`git status`\nDo $ARGUMENTS"), "!`rm -rf /`")
    assert "- `git status`" in text
    assert "- `rm" not in text
    assert "State: (what `git status` prints)" in text


def test_an_open_quote_is_refused_only_where_words_count() -> None:
    with pytest.raises(UsageError, match="/review: no closing quotation"):
        expanded(command("Look at $1."), "it's")
    assert expanded(command("Look at $ARGUMENTS."), "it's") == "Look at it's."


def test_what_is_typed_may_be_a_command() -> None:
    assert typed_command("/review src") == ("review", "src")
    assert typed_command("/a/b") == ("a:b", "")
    assert typed_command("review") is None
    assert typed_command("/") is None


def test_a_project_is_heard_only_if_it_is_trusted_as_it_is(project: Path) -> None:
    put(project / ".claude/agents/reviewer.md", CLAUDE_AGENT)
    put(project / ".opencode/command/deep/test.md", "Run the tests.")
    hooks = put(project / ".harness/hooks.json", '{"hooks": {}}')
    found = find_additions(str(project))
    assert (list(found.kinds), dict(found.commands)) == ([EXPLORE.name], {})
    assert "`harness trust` shows them" in found.notes[0]

    trust_folder(judge(str(project), "native"))
    found = find_additions(str(project))
    assert (list(found.kinds), list(found.commands)) == (["reviewer", EXPLORE.name], ["deep:test"])
    assert find_additions(str(project), "none").commands == {}

    hooks.write_text('{"hooks": {"PreToolUse": []}}')
    found = find_additions(str(project))
    assert found.commands == {}
    assert "have changed" in found.notes[0]
    assert list(find_additions(str(project), "use").commands) == ["deep:test"]


def test_a_folder_below_a_repository_hears_what_lies_above_it(project: Path) -> None:
    put(project / ".harness/commands/test.md", "Run the tests.")
    below = project / "src"
    put(below / "vendor/.harness/commands/evil.md", "Not mine.")
    trust_folder(judge(str(below), "native"))
    assert list(find_additions(str(below)).commands) == ["test"]


def test_the_users_own_need_no_trust_and_come_first(project: Path, lone_home: Path) -> None:
    put(lone_home / ".config/harness/commands/test.md", "My tests.")
    put(lone_home / ".claude/agents/mine.md", CLAUDE_AGENT.replace("reviewer", "mine"))
    put(project / ".harness/commands/test.md", "Their tests.")
    found = find_additions(str(project), "use")
    assert found.commands["test"].body == "My tests."
    assert "mine" in found.kinds


def test_links_out_of_the_folder_count_as_what_they_lead_to(project: Path, tmp_path: Path) -> None:
    outside = put(tmp_path / "outside.md", "One.")
    (project / ".harness/commands").mkdir(parents=True)
    (project / ".harness/commands/test.md").symlink_to(outside)
    trust_folder(judge(str(project), "native"))
    assert find_additions(str(project)).commands["test"].body == "One."
    outside.write_text("Two.")
    assert find_additions(str(project)).commands == {}
