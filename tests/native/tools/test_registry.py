"""Which tools a run is offered, what they are called, and where skills come from."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from harness.contracts.tool import Tool, ToolContext
from harness.events.operation import Skill, Spawn
from harness.native.tools.agent import AgentTool
from harness.native.tools.read import ReadTool
from harness.native.tools.registry import default_tools
from harness.native.tools.skill import SkillTool, find_skills
from tool_kit import Bench

READING = ["read", "list", "glob", "grep", "agent", "todo"]


def names(tools: list[Tool]) -> list[str]:
    return [tool.spec.name for tool in tools]


def test_all_tools_are_offered_and_only_reading_ones_to_a_run_that_may_only_read(bench: Bench) -> None:
    everything = names(default_tools(str(bench.root)))
    assert everything == [
        *("read", "list", "glob", "grep", "write", "edit", "apply_patch", "bash", "bash_output", "fetch"),
        *("agent", "todo"),
    ]
    assert names(default_tools(str(bench.root), "read-only")) == READING
    assert names(default_tools(str(bench.root), "agent-default")) == everything


def test_every_tool_describes_its_arguments(bench: Bench) -> None:
    for tool in default_tools(str(bench.root)):
        schema = tool.spec.schema
        assert schema["type"] == "object"
        assert "$ref" not in str(schema)
        assert re.fullmatch(r"[a-z_]+", tool.spec.name)
        assert 20 < len(tool.spec.description) < 2000
        assert all(re.fullmatch(r"[a-z][A-Za-z]*", name) for name in schema["properties"])


def test_every_tool_says_what_it_will_do_and_nothing_for_what_it_does_not_take(bench: Bench) -> None:
    arguments = {
        "read": {"filePath": "a"},
        "list": {},
        "glob": {"pattern": "*"},
        "grep": {"pattern": "x"},
        "write": {"filePath": "a", "content": ""},
        "edit": {"filePath": "a", "oldString": "x", "newString": "y"},
        "apply_patch": {"patch": "*** Begin Patch\n*** Delete File: a\n*** End Patch"},
        "bash": {"command": "ls"},
        "bash_output": {"id": "b1"},
        "fetch": {"url": "https://host/"},
        "agent": {"task": "x"},
        "todo": {"todos": []},
    }
    for tool in default_tools(str(bench.root)):
        assert tool.operations(arguments[tool.spec.name])
        assert tool.permission(arguments[tool.spec.name]).tool == tool.spec.name
        if tool.spec.name not in (
            "list",
            "todo",
            "bash_output",
        ):  # whatever they are given, they change nothing
            with pytest.raises(Exception, match="invalid arguments"):
                tool.operations({"nonsense": 1})


def test_a_sub_agent_is_started_through_the_context(bench: Bench) -> None:
    import asyncio

    async def spawn(task: str, name: str) -> str:
        return f"{name} did {task}"

    context = ToolContext(cwd=str(bench.root), on_spawn=spawn)
    tool = AgentTool()
    asked = {"task": "the work", "name": "worker"}
    assert tool.operations(asked) == [Spawn(task="the work", name="worker")]
    assert asyncio.run(tool.run(asked, context)).text == "worker did the work"
    assert "cannot be started here" in bench.refused(tool, task="x")


# skills


def skill(folder: Path, name: str, *lines: str) -> Path:
    (folder / name).mkdir(parents=True)
    path = folder / name / "SKILL.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def plain(name: str, description: str = "does something") -> tuple[str, ...]:
    return ("---", f"name: {name}", f"description: {description}", "---", f"How to {name}.")


def test_skills_are_found_in_the_project_and_at_home(bench: Bench) -> None:
    home = Path(os.environ["HOME"])
    skill(bench.root / ".claude/skills", "one", *plain("one"))
    skill(bench.root / ".harness/skills", "two", *plain("two"))
    skill(home / ".claude/skills", "three", *plain("three"))
    skill(home / ".config/harness/skills", "four", *plain("four"))
    skill(home / ".claude/skills", "one", *plain("one", "another one"))
    found = find_skills(bench.workspace)
    assert [one.name for one in found] == ["four", "one", "three", "two"]
    assert found[1].description == "another one"
    assert "skill" in names(default_tools(str(bench.root)))


def test_a_skill_is_offered_and_loaded(bench: Bench) -> None:
    path = skill(bench.root / ".claude/skills", "deploy", *plain("deploy", "use <it> & see"))
    tool = SkillTool(find_skills(bench.workspace), bench.workspace)
    assert "<name>deploy</name><description>use &lt;it&gt; &amp; see</description>" in tool.spec.description
    assert tool.operations({"name": "deploy"}) == [Skill(path=str(path), name="deploy")]
    output = bench.call(tool, name="deploy")
    assert output.text.startswith(f'<skill name="deploy" folder="{path.parent}">\n---\nname: deploy\n')
    assert "How to deploy.\n</skill>" in output.text
    assert output.operations == [Skill(path=str(path), name="deploy", start_line=1, end_line=5)]
    assert "there are: deploy" in bench.refused(tool, name="other")


def test_files_of_a_skill_at_home_may_be_read(bench: Bench) -> None:
    folder = Path(os.environ["HOME"]) / ".claude/skills"
    skill(folder, "one", *plain("one"))
    (folder / "one" / "reference.md").write_text("details")
    (folder / "secret.md").write_text("no")
    tools = {tool.spec.name: tool for tool in default_tools(str(bench.root))}
    assert "details" in bench.call(tools["read"], filePath=str(folder / "one/reference.md")).text
    assert "outside" in bench.refused(tools["read"], filePath=str(folder / "secret.md"))


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("no front matter",),
        ("---", "name: x", "description: never closed"),
        ("---", "name: x", "---"),
        ("---", "description: x", "---"),
        ("---", "name: ../evil", "description: x", "---"),
        ("---", "name: two words", "description: x", "---"),
        ("---", f"name: {'x' * 65}", "description: x", "---"),
        ("---", "name: x", f"description: {'y' * 1025}", "---"),
        ("---", "name: x", "description: \0", "---"),
    ],
)
def test_what_is_no_skill_is_skipped(bench: Bench, lines: tuple[str, ...]) -> None:
    skill(bench.root / ".claude/skills", "bad", *lines)
    skill(bench.root / ".claude/skills", "good", *plain("good"))
    (bench.root / ".claude/skills/file").write_text("")
    (bench.root / ".claude/skills/empty").mkdir()
    assert [one.name for one in find_skills(bench.workspace)] == ["good"]


@pytest.mark.parametrize(
    ("lines", "description"),
    [
        (("description: 'quoted: text'",), "quoted: text"),
        (("description: >-", "  several", "  lines"), "several lines"),
        (("description: begun", "  and continued", "license: MIT"), "begun and continued"),
        (("metadata:", "  name: inner", "description: x: y"), "x: y"),
    ],
)
def test_descriptions_may_be_written_in_several_ways(
    bench: Bench, lines: tuple[str, ...], description: str
) -> None:
    skill(bench.root / ".claude/skills", "x", "---", "name: x", *lines, "---", "body")
    assert [one.description for one in find_skills(bench.workspace)] == [description]


def test_a_link_in_a_skill_of_the_project_opens_nothing(bench: Bench) -> None:
    skill(bench.outside, "evil", *plain("evil"))
    folder = bench.root / ".claude/skills"
    folder.mkdir(parents=True)
    (folder / "linked").symlink_to(bench.outside / "evil")
    (folder / "half").mkdir()
    (folder / "half" / "SKILL.md").symlink_to(bench.outside / "evil" / "SKILL.md")
    assert find_skills(bench.workspace) == []
    assert "outside" in bench.refused(
        ReadTool(bench.workspace), filePath=str(bench.outside / "evil/SKILL.md")
    )
