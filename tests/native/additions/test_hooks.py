"""Hooks around calls: commands of the user's own that are asked before and told after."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.approvals.call import ProposedCall
from harness.contracts.model import Call
from harness.contracts.tool import ToolOutput
from harness.native.additions.hooks import HookRunner, read_hooks


def propose(arguments: dict[str, Any]) -> ProposedCall:
    return ProposedCall(tool="bash", input=arguments)


def runner(folder: Path, event: str, command: str, matcher: str = "", timeout: float = 10) -> HookRunner:
    one = {"type": "command", "command": command, "timeout": timeout}
    text = json.dumps({"hooks": {event: [{"matcher": matcher, "hooks": [one]}]}})
    hooks, notes = read_hooks(str(folder / "hooks.json"), text)
    assert notes == []
    return HookRunner(hooks, str(folder), lambda: {"PATH": os.environ["PATH"]})


def before(runner: HookRunner, tool: str = "bash", **arguments: Any) -> Call | str | None:
    return asyncio.run(runner.before_call(Call("1", tool, arguments), propose))


def test_a_hook_is_told_of_the_call_and_refuses_it(tmp_path: Path) -> None:
    hook = runner(tmp_path, "PreToolUse", "cat > told; echo 'not on a Friday' >&2; exit 2")
    assert before(hook, command="ls") == "a hook refuses it: not on a Friday"
    told = json.loads((tmp_path / "told").read_bytes())
    assert (told["hook_event_name"], told["tool_name"], told["tool_input"]) == (
        "PreToolUse",
        "bash",
        {"command": "ls"},
    )
    assert told["cwd"] == str(tmp_path)


def test_a_hook_may_say_so_as_json(tmp_path: Path) -> None:
    said = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "never"}}
    assert before(runner(tmp_path, "PreToolUse", f"echo '{json.dumps(said)}'")) == "a hook refuses it: never"


def test_a_hook_changes_arguments_and_never_allows(tmp_path: Path) -> None:
    said = {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "ls -l"}}}
    changed = before(runner(tmp_path, "PreToolUse", f"echo '{json.dumps(said)}'"), command="ls")
    assert isinstance(changed, Call)
    assert changed.input == {"command": "ls -l"}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exit 1", "exit code 1"),
        ("echo broken >&2; exit 3", "broken"),
        ("kill -9 $$", "failed"),
        ("sleep 30", "within"),
    ],
)
def test_a_hook_that_fails_refuses_the_call(tmp_path: Path, command: str, why: str) -> None:
    said = before(runner(tmp_path, "PreToolUse", command, timeout=0.3))
    assert isinstance(said, str)
    assert "failed, so that the call is refused" in said
    assert why in said


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"hooks": {"PreToolUse": [{"hooks": [{"command": 1}]}]}}',
        '{"hooks": 1}',
        '{"hooks": {"PreToolUse": [{"matcher": "(", "hooks": [{"command": "x"}]}]}}',
    ],
)
def test_a_file_that_cannot_be_read_refuses_every_call(tmp_path: Path, text: str) -> None:
    hooks, [note] = read_hooks("/x/hooks.json", text)
    assert "every call is refused" in note
    said = before(HookRunner(hooks, str(tmp_path), dict))
    assert isinstance(said, str)
    assert "/x/hooks.json cannot be read" in said


@pytest.mark.parametrize(
    ("matcher", "tool", "is_asked"),
    [
        ("bash", "bash", True),
        ("Bash", "bash", True),
        ("Edit|Write", "write", True),
        ("Edit|Write", "read", False),
        ("ba", "bash", False),
        ("mcp__lab__.*", "lab__echo", True),
        ("*", "read", True),
    ],
)
def test_a_matcher_names_whole_tools_in_our_words_or_those_of_claude_code(
    tmp_path: Path, matcher: str, tool: str, is_asked: bool
) -> None:
    assert bool(before(runner(tmp_path, "PreToolUse", "exit 2", matcher), tool)) == is_asked


def test_what_a_hook_says_afterwards_is_added(tmp_path: Path) -> None:
    output, call = ToolOutput(text="done"), Call("1", "edit", {})
    for command, text in (
        ("echo wrong style >&2; exit 2", "done\n[hook] wrong style"),
        ('echo \'{"additionalContext": "look"}\'', "done\n[hook] look"),
        ("echo nothing of note", "done"),
    ):
        hook = runner(tmp_path, "PostToolUse", command, "Edit")
        assert asyncio.run(hook.after_call(call, output)).text == text


def test_other_events_are_named(tmp_path: Path) -> None:
    text = '{"hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}'
    assert read_hooks("/x", text) == ([], ["/x: only PreToolUse and PostToolUse count here, not Stop"])
