"""Hooks: commands that are asked before each call, and told of it after.

    {"hooks": {"PreToolUse": [{"matcher": "bash", "hooks": [{"type": "command", "command": "./check.sh", "timeout": 10}]}]}}

The shape is that of Claude Code. A hook reads one JSON object and answers by its exit code, or with JSON
    before   0: go on (`updatedInput`: with these arguments; `permissionDecision` `deny` or `ask`: not) · else: the call is refused
    after    0: what it prints as `additionalContext` is added to the result · 2: its error output is
A hook that cannot be run refuses the call: it is there to prevent something. None can allow what permissions do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from harness.approvals.call import ProposedCall
from harness.contracts.model import Call
from harness.contracts.tool import ToolFailure, ToolOutput
from harness.formats.json_lines import DECODE_ERRORS
from harness.process.child import OutputChunk
from harness.process.invocation import Invocation
from harness.workspace.commands import run_command

HOOKS_FILE = "hooks.json"
_BEFORE, _AFTER = "PreToolUse", "PostToolUse"
_USUAL_TIMEOUT_S = 60.0
_LONGEST_TIMEOUT_S = 600.0
_MOST_BYTES = 64 * 1024
_MOST_SAID = 8_000
_REFUSED = 2
_THEIRS = {
    "bash": ("Bash",),
    "edit": ("Edit", "MultiEdit"),
    "apply_patch": ("Edit", "MultiEdit"),
    "write": ("Write",),
    "read": ("Read",),
    "grep": ("Grep",),
    "glob": ("Glob",),
    "list": ("LS",),
    "fetch": ("WebFetch",),
    "agent": ("Task", "Agent"),
    "todo": ("TodoWrite",),
    "skill": ("Skill",),
}
"""What Claude Code calls our tools, for hooks that were written for it."""


class CallHook(msgspec.Struct, frozen=True, kw_only=True):
    event: str
    matcher: str
    """A regular expression over the whole name of a tool; empty: every tool."""
    command: str
    timeout_s: float
    origin: str
    """The file."""

    def is_for(self, event: str, tool: str) -> bool:
        names = (tool, *_THEIRS.get(tool, ()), *([f"mcp__{tool}"] if "__" in tool else []))
        return self.event == event and (
            self.matcher in ("", "*") or any(re.fullmatch(self.matcher, name) for name in names)
        )


class _Answer(NamedTuple):
    code: int | None
    """None: it gave no answer."""
    out: str
    error: str


def read_hooks(path: str, text: str) -> tuple[list[CallHook], list[str]]:
    """The hooks of a file, and what of it cannot be used."""
    try:
        events = msgspec.json.decode(text.encode("utf-8", "replace"))["hooks"]
        groups = [(event, group) for event, groups in events.items() for group in groups]
        hooks = [
            _hook(path, event, group.get("matcher") or "", hook)
            for event, group in groups
            for hook in group["hooks"]
        ]
    except (*DECODE_ERRORS, LookupError, TypeError, AttributeError, ValueError, re.error) as error:
        return [_broken(path)], [f"{path} cannot be read as hooks, so that every call is refused: {error}"]
    others = sorted({hook.event for hook in hooks} - {_BEFORE, _AFTER})
    notes = [f"{path}: only {_BEFORE} and {_AFTER} count here, not {', '.join(others)}"] if others else []
    return [hook for hook in hooks if hook.event in (_BEFORE, _AFTER)], notes


def _hook(path: str, event: str, matcher: str, fields: Mapping[str, Any]) -> CallHook:
    """Raises what a wrong entry leads to."""
    if fields.get("type", "command") != "command" or not isinstance(fields["command"], str):
        raise ValueError(f"{event}: a hook is a command, as text")
    if matcher not in ("", "*"):
        re.compile(matcher)
    timeout_s = min(float(fields.get("timeout") or _USUAL_TIMEOUT_S), _LONGEST_TIMEOUT_S)
    return CallHook(event=event, matcher=matcher, command=fields["command"], timeout_s=timeout_s, origin=path)


def _broken(path: str) -> CallHook:
    """What stands for a file of hooks that cannot be read: whoever wrote it wanted to prevent something."""
    return CallHook(event=_BEFORE, matcher="", command="", timeout_s=_USUAL_TIMEOUT_S, origin=path)


class HookRunner:
    """`before_call` and `after_call` of the options of a run, by the hooks that there are."""

    def __init__(self, hooks: Sequence[CallHook], cwd: str, env: Callable[[], Mapping[str, str]]) -> None:
        """`env`: of the commands."""
        self._hooks = tuple(hooks)
        self._cwd = cwd
        self._env = env

    async def before_call(
        self, call: Call, propose: Callable[[dict[str, Any]], ProposedCall]
    ) -> Call | str | None:
        """The call as it is to be carried out, or why it may not be."""
        del propose
        changed = call
        for hook in self._hooks:
            if not hook.is_for(_BEFORE, call.name):
                continue
            verdict = _judged(hook, changed, await self._run(hook, changed, {}))
            if isinstance(verdict, str):
                return verdict
            changed = verdict
        return None if changed is call else changed

    async def after_call(self, call: Call, output: ToolOutput) -> ToolOutput:
        reply = []
        for hook in self._hooks:
            if hook.is_for(_AFTER, call.name):
                response = {"success": output.success, "text": output.text[:_MOST_BYTES]}
                reply.append(_remark(hook, await self._run(hook, call, {"tool_response": response})))
        text = "".join(f"\n[hook] {text_part}" for text_part in reply if text_part)
        return replace(output, text=output.text + text) if text else output

    async def _run(self, hook: CallHook, call: Call, more: dict[str, Any]) -> _Answer:
        if not hook.command:
            return _Answer(None, "", f"{hook.origin} cannot be read")
        message = {
            "hook_event_name": hook.event,
            "cwd": self._cwd,
            "tool_name": call.name,
            "tool_input": call.input,
            "tool_use_id": call.id,
            **more,
        }
        env = {**self._env(), "CLAUDE_PROJECT_DIR": self._cwd, "HARNESS_PROJECT_DIR": self._cwd}
        try:
            message_bytes = msgspec.json.encode(message)
        except (TypeError, ValueError) as error:
            return _Answer(None, "", f"the call cannot be written as JSON: {error}")
        invocation = Invocation(("/bin/sh", "-c", hook.command), env, self._cwd, stdin=message_bytes)
        streams: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}

        def take(chunks: Sequence[OutputChunk]) -> None:
            for stream, data in chunks:
                streams[stream] += data[: _MOST_BYTES - len(streams[stream])]

        try:
            ending = await run_command(invocation, take, hook.timeout_s)
        except ToolFailure as error:
            return _Answer(None, "", str(error))
        out, error_text = (streams[name].decode("utf-8", "replace").strip() for name in ("stdout", "stderr"))
        if ending.is_timeout:
            return _Answer(None, out, f"it did not end within {hook.timeout_s:g} s")
        return _Answer(ending.exit.code if ending.exit.signal is None else None, out, error_text)


def _judged(hook: CallHook, call: Call, answer: _Answer) -> Call | str:
    """The call, perhaps with other arguments; or why it is refused."""
    if answer.code == _REFUSED:
        return f"a hook refuses it: {answer.error[:_MOST_SAID] or hook.command}"
    if answer.code != 0:
        why = answer.error[:_MOST_SAID] or f"exit code {answer.code}"
        return f"the hook {hook.command or hook.origin} failed, so that the call is refused: {why}"
    reply = _said(answer.out)
    decision = reply.get("permissionDecision", reply.get("decision"))
    if decision in ("deny", "ask", "block"):
        return f"a hook refuses it: {reply.get('permissionDecisionReason') or reply.get('reason') or hook.command}"
    changed = reply.get("updatedInput")
    return msgspec.structs.replace(call, input=changed) if isinstance(changed, dict) else call


def _remark(hook: CallHook, answer: _Answer) -> str:
    """What the model is told besides the result of its call."""
    if answer.code is None:
        return f"{hook.command} failed: {answer.error[:_MOST_SAID]}"
    if answer.code == _REFUSED:
        return answer.error[:_MOST_SAID]
    reply = _said(answer.out)
    return str(reply.get("additionalContext") or reply.get("reason") or "")[:_MOST_SAID]


def _said(text: str) -> dict[str, Any]:
    """What a hook answers as JSON, its own part of it before the rest; other texts say nothing."""
    try:
        value = msgspec.json.decode(text.encode()) if text.startswith("{") else {}
    except DECODE_ERRORS:
        return {}
    if not isinstance(value, dict):
        return {}
    inner = value.get("hookSpecificOutput")
    return {**value, **inner} if isinstance(inner, dict) else value
