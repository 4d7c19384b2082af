"""The order in which permission rules count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.approvals.rules import Rule
from harness.contracts.tool import Tool, ToolContext, ToolOutput, ToolSpec
from harness.errors import UsageError
from harness.events import Operation
from harness.events.operation import Command, Read
from harness.native.tools.bash import BashTool
from harness.questions.permissions import proposed_call
from harness.session.permissions import SessionPermissions
from harness.session.state import SessionState
from harness.workspace.commands import OutputFolder
from harness.workspace.roots import ToolWorkspace


def rules(state: dict[str, Any] | None = None, category: Any = None) -> SessionPermissions:
    return SessionPermissions(SessionState(None, state, lambda _event: None), category)


def test_without_anything_said_a_tool_is_asked_about() -> None:
    assert rules().resolve("deploy") == "ask"


def test_the_harness_own_tools_are_not_asked_about() -> None:
    assert rules().resolve("ask_user") == "allow"
    assert rules({"permissionRules": {"tools": {"ask_user": "ask"}}}).resolve("ask_user") == "ask"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"permissionRules": {"tools": {"bash": "deny"}}, "yolo": True}, "deny"),
        ({"permissionRules": {"categories": {"execute": "deny"}}, "yolo": True}, "allow"),
        ({"permissionRules": {"categories": {"execute": "deny"}}}, "deny"),
        ({"permissionRules": {"categories": {"execute": "deny"}, "tools": {"bash": "allow"}}}, "allow"),
        ({"yolo": "yes"}, "ask"),
    ],
)
def test_the_order_of_rules(state: dict[str, Any], expected: str) -> None:
    assert rules(state).resolve("bash") == expected


def test_what_is_said_of_a_tool_beats_a_grant_for_it() -> None:
    kept = rules({"permissionRules": {"tools": {"bash": "ask"}}})
    kept.grant_tool("bash")
    kept.grant_category("execute")
    assert kept.resolve("bash") == "ask"


def test_grants_allow_and_are_listed() -> None:
    kept = rules()
    kept.grant_tool("deploy")
    kept.grant_category("edit")
    assert (kept.resolve("deploy"), kept.resolve("write"), kept.resolve("bash")) == ("allow", "allow", "ask")
    assert kept.has_tool_grant("deploy")
    assert kept.has_category_grant("edit")
    assert kept.get_grants() == {"categories": ["edit"], "tools": ["deploy"]}


def test_a_category_grant_beats_what_is_said_of_the_category() -> None:
    kept = rules({"permissionRules": {"categories": {"edit": "ask"}}})
    kept.grant_category("edit")
    assert kept.resolve("write") == "allow"


def test_rules_are_stored_in_the_state_and_merged() -> None:
    async def run() -> None:
        kept = rules()
        assert kept.get_rules() == {"categories": {}, "tools": {}}
        await kept.set_for_tool(tool_name="bash", policy="deny")
        await kept.set_for_category(category="edit", policy="allow")
        await kept.set_for_tool(tool_name="grep", policy="ask")
        assert kept.get_rules() == {"categories": {"edit": "allow"}, "tools": {"bash": "deny", "grep": "ask"}}
        with pytest.raises(UsageError, match="policy cannot be 'perhaps'"):
            await kept.set_for_tool(tool_name="x", policy="perhaps")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="category cannot be 'exec'"):
            await kept.set_for_category(category="exec", policy="deny")  # type: ignore[arg-type]

    asyncio.run(run())


def test_a_tool_without_a_category_has_none() -> None:
    assert rules().category("something") is None
    assert rules().category("mcp__server__tool") is None  # a name says nothing
    kept = rules({"permissionRules": {"categories": {"other": "allow"}}}, lambda _name: None)
    assert kept.resolve("something") == "ask"


ENVIRON = {"PATH": "/usr/bin:/bin"}


def _decided(folder: Path, tool: Tool, command: str, environ: Mapping[str, str] = ENVIRON) -> str:
    permissions = rules({"permissionRules": {"categories": {"read": "allow"}}})
    permissions.work_in(str(folder), environ)
    arguments = {"command": command}
    call = proposed_call(tool.spec.name, arguments, tool.operations(arguments), "execute")
    return permissions.of([tool]).verdict(call).decision


def test_no_command_is_free_whatever_the_shell_of_a_tool_is(tmp_path: Path) -> None:
    class Shell(Tool):
        spec = ToolSpec("shell", "", {"type": "object"})
        category = "execute"

        def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
            return [Command(command=arguments["command"])]

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            raise NotImplementedError

    assert _decided(tmp_path, Shell(), "ls") == "ask"


def test_where_nothing_may_be_run_no_command_is_free(tmp_path: Path) -> None:
    bash = BashTool(ToolWorkspace(str(tmp_path)), OutputFolder(str(tmp_path / "outputs")))
    permissions = rules({"permissionRules": {"categories": {"read": "allow", "execute": "deny"}}})
    permissions.work_in(str(tmp_path), ENVIRON)
    arguments = {"command": "ls"}
    call = proposed_call("bash", arguments, bash.operations(arguments), "execute")
    assert permissions.of([bash]).verdict(call).decision == "deny"


@pytest.mark.parametrize(
    ("categories", "folder", "line", "expected"),
    [
        ({"read": "allow"}, ".", "cat a.txt", "allow"),
        ({"read": "allow"}, ".", "ls -la && cat a.txt | head -3", "allow"),
        ({"read": "allow"}, ".", "cat /etc/passwd", "ask"),
        ({"read": "allow"}, ".", "./cat a.txt", "ask"),
        ({"read": "allow"}, ".", "git status", "ask"),
        ({"read": "allow"}, "..", "cat a.txt", "ask"),
        ({"read": "allow", "execute": "ask"}, ".", "cat a.txt", "ask"),
        ({"read": "allow", "execute": "deny"}, ".", "cat a.txt", "deny"),
        ({"read": "ask"}, ".", "cat a.txt", "ask"),
        ({}, ".", "cat a.txt", "ask"),
    ],
)
def test_a_command_that_is_proved_to_read_only_is_free_as_with_every_agent(
    categories: dict[str, str], folder: str, line: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w/a.txt").write_text("a\n")
    kept = rules({"permissionRules": {"categories": categories}})
    kept.work_in(str(tmp_path / "w"), {"PATH": "/usr/bin:/bin"})
    workspace = ToolWorkspace(str(tmp_path / "w" / folder))
    bash = BashTool(workspace, OutputFolder(str(tmp_path / "outputs")))
    call = proposed_call("bash", {"command": line}, bash.operations({"command": line}))
    assert kept.of([bash]).verdict(call).decision == expected


def test_no_command_of_a_tool_of_others_is_free(tmp_path: Path) -> None:
    class Shell(Tool):
        spec = ToolSpec("shell", "", {})
        category = "execute"

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            return ToolOutput(text="")

    kept = rules({"permissionRules": {"categories": {"read": "allow"}}})
    kept.work_in(str(tmp_path), {"PATH": "/usr/bin:/bin"})
    call = proposed_call("shell", {"command": "ls"}, [Command(command="ls")])
    assert kept.of([Shell()]).verdict(call).decision == "ask"


def test_what_a_rule_denies_is_denied_right_before_it_runs(tmp_path: Path) -> None:
    kept = rules()
    kept.work_in(str(tmp_path), {})
    kept.settings = [Rule(answer="deny", path=".env")]
    read = proposed_call("read", {"path": "a"}, [Read(path=str(tmp_path / "a"))])
    assert kept.denial(read) is None
    (tmp_path / ".env").write_text("secret")
    (tmp_path / "a").symlink_to(".env")
    assert "a rule denies it" in (kept.denial(read) or "")


def test_a_tool_that_a_rule_denies_as_a_whole_is_not_shown_to_the_model() -> None:
    kept = rules({"permissionRules": {"tools": {"bash": "deny"}}})
    kept.settings = [Rule(answer="deny", tool="web*"), Rule(answer="deny", tool="read", path=".env")]
    assert [kept.is_denied(name) for name in ("bash", "webfetch", "read", "grep")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_rule_of_the_settings_for_an_agent_holds_for_that_one() -> None:
    kept = rules()
    kept.settings = [Rule(answer="allow", command="touch made", agent="claude")]
    touch = proposed_call("bash", {"command": "touch made"}, [Command(command="touch made")])
    assert kept.verdict(touch).decision == "ask"
    assert [bool(kept.as_rules(agent)) for agent in ("claude", "codex", "native")] == [True, False, False]


def test_always_has_no_effect_where_a_rule_asks_and_it_is_said(tmp_path: Path) -> None:
    kept = rules()
    kept.settings = [Rule(answer="ask", command="git push")]
    push, log = (
        proposed_call("bash", {"command": line}, [Command(command=line)]) for line in ("git push", "git log")
    )
    assert [kept.verdict(call).is_lasting for call in (push, log)] == [False, True]
