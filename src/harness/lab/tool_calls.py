"""A script's calls as tool calls of one agent.

`render` turns intents into the agent's tools before the first request. Tools are renamed, and their inputs reshaped,
from release to release: a fixture may give several forms, the newest first, and `as_offered` chooses by the tools
that a request offers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.contracts.fixture import AgentFixture, LabContext, ToolTemplate
from harness.contracts.script import (
    AgentIntent,
    Alternatives,
    Script,
    ScriptConversation,
    ScriptError,
    ScriptPart,
    ScriptReasoning,
    ScriptText,
    ScriptToolCall,
    ScriptTurn,
    intent_name,
    replace_placeholders,
)
from harness.errors import UsageError


def render(
    script: Script, fixture: AgentFixture | None, context: LabContext | None
) -> Mapping[str, ScriptConversation]:
    """The conversations with nothing but texts, reasoning, errors and the agent's own tools.

    Raises UsageError for a call by intent that cannot be made.
    """
    conversations = script.conversations
    if fixture is not None and fixture.agent_end is not None:
        conversations = _with_ends(conversations, fixture.agent_end)
    return {name: _rendered(conversation, fixture, context) for name, conversation in conversations.items()}


def _owned(call: ScriptToolCall, number: int) -> ScriptToolCall:
    """The same with `each` made the number of the intent that it belongs to."""

    def keep(which: str, expression: str) -> str:
        return f"{{{{{number if which == 'each' else which} {expression}}}}}"

    return msgspec.structs.replace(call, input=replace_placeholders(call.input, keep))


def _with_ends(
    conversations: dict[str, ScriptConversation], end: ToolTemplate
) -> dict[str, ScriptConversation]:
    """Conversations of sub-agents end with a call."""
    prompts = [
        part.prompt
        for conversation in conversations.values()
        for turn in conversation.turns
        for part in turn.parts
        if isinstance(part, AgentIntent)
    ]
    by_marker = dict(conversations)
    for name, conversation in conversations.items():
        if not conversation.turns:
            continue
        last = conversation.turns[-1]
        text = "".join(part.text for part in last.parts if isinstance(part, ScriptText))
        is_text = all(isinstance(part, ScriptText | ScriptReasoning) for part in last.parts)
        if is_text and conversation.marker and any(conversation.marker in prompt for prompt in prompts):
            last = msgspec.structs.replace(last, parts=(end.fill({"text": text}),))
        by_marker[name] = msgspec.structs.replace(conversation, turns=(*conversation.turns[:-1], last))
    return by_marker


def _rendered(
    conversation: ScriptConversation, fixture: AgentFixture | None, context: LabContext | None
) -> ScriptConversation:
    turns: list[ScriptTurn] = []
    for turn in conversation.turns:
        now: list[ScriptPart] = []
        then: list[ScriptPart] = []
        followed = 0
        for part in turn.parts:
            if isinstance(part, ScriptText | ScriptReasoning | ScriptToolCall | ScriptError | Alternatives):
                now.append(part)
                continue
            what = f"{turn.place}: `{intent_name(part)}` is a call by intent"
            if fixture is None or context is None:
                raise UsageError(what, hint="say for which agent with --agent, or call its tool by name")
            if intent_name(part) not in fixture.calls:
                raise UsageError(
                    f"{what} that this agent lacks: {fixture.lacks.get(intent_name(part), 'no such tool')}"
                )
            steps = fixture.render(part, context)
            now += steps.calls
            followed += bool(steps.then)
            then += [_owned(call, followed) for call in steps.then]
        turns.append(msgspec.structs.replace(turn, parts=tuple(now)))
        if then:
            turns.append(ScriptTurn(parts=tuple(then), usage=turn.usage, place=turn.place))
    return msgspec.structs.replace(conversation, turns=tuple(turns))


_SAME = (
    (
        "path",
        "file_path",
        "filePath",
        "absolute_path",
        "absolutePath",
        "target_file",
        "dir_path",
        "directory",
    ),
    ("old_string", "oldString", "oldText", "old_str", "old_text"),
    ("new_string", "newString", "newText", "new_str", "new_text"),
    ("content", "contents", "file_text", "text"),
    ("command", "cmd", "script"),
    ("pattern", "query", "regex"),
    ("prompt", "task", "message", "instructions"),
    ("skill", "skill_name", "name"),
)
"""Names under which agents ask for the same."""


def as_offered(calls: Alternatives, tools: Mapping[str, Mapping[str, Any]]) -> ScriptToolCall:
    """The first that fits what is offered; else the first whose tool there is; else the first."""
    candidates = [_renamed(call, tools.get(call.tool, {})) for call in calls.calls]
    fitting = (call for call in candidates if call.tool in tools and _fits(call, tools[call.tool]))
    present = (call for call in candidates if call.tool in tools)
    return next(fitting, None) or next(present, None) or candidates[0]


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _fits(call: ScriptToolCall, schema: Mapping[str, Any]) -> bool:
    properties, required = _properties(schema), schema.get("required")
    if not properties or isinstance(call.input, str):
        return True
    required_names = set(required) if isinstance(required, list) else set()
    return required_names <= call.input.keys() <= properties.keys()


def _renamed(call: ScriptToolCall, schema: Mapping[str, Any]) -> ScriptToolCall:
    """The same input under the names that are offered; what a strict schema does not know is left out."""
    properties = _properties(schema)
    if not properties or isinstance(call.input, str):
        return call
    renamed = {_name(key, call.input, properties): value for key, value in call.input.items()}
    if schema.get("additionalProperties") is False:
        renamed = {key: value for key, value in renamed.items() if key in properties}
    return replace(call, input=renamed)


def _name(key: str, arguments: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    if key in properties:
        return key
    alike = next((names for names in _SAME if key in names), ())
    return next((name for name in alike if name in properties and name not in arguments), key)
