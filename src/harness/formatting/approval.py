"""A call that needs approval, in lines of a terminal: everything that would run, and what would be removed.

Nothing can be hidden in it: invisible characters are spelled out, and omitted text is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec

from harness.events import (
    AnyEvent,
    Briefed,
    BufferingFailed,
    Event,
    Forked,
    GoalChanged,
    GoalEvaluated,
    MemoryActivated,
    MemoryModelChanged,
    ModeChanged,
    ModelChanged,
    ObservationEnd,
    ObservationFailed,
    ReflectionEnd,
    ReflectionFailed,
    Relay,
    RelayCall,
    Resumed,
    Signal,
    Steering,
    SteeringQueued,
    SubagentModelChanged,
    Suspended,
    ThreadCreated,
    ThreadRenamed,
    WorkspaceChanged,
)
from harness.formatting.amounts import tokens
from harness.formatting.calls import gist
from harness.formatting.escapes import revealed
from harness.formatting.json_text import compact
from harness.formatting.question_data import QuestionedCall, QuestionOption

_LONGEST_LINE = 400
_LONGEST_TITLE = 200


def title(name: str, arguments: Any) -> str:
    """A call on one line, with the amount of text that is omitted."""
    if isinstance(arguments, dict) and len(arguments) == 1:
        arguments = next(iter(arguments.values()))
    prefix = revealed(name, is_line=True)
    if not arguments and arguments != 0:
        return prefix
    text = _spelled(arguments)
    visible = revealed(text, is_line=True)
    if len(visible) > _LONGEST_TITLE:
        visible = f"{visible[:_LONGEST_TITLE]}{_missing(text, visible)}"
    return f"{prefix}: {visible}"


def is_short(arguments: Any) -> bool:
    """Whether the title shows the whole call."""
    if isinstance(arguments, dict) and len(arguments) == 1:
        arguments = next(iter(arguments.values()))
    text = _text(arguments)
    return "\n" not in text and len(text) <= _LONGEST_TITLE and not isinstance(arguments, dict)


def lines_of(arguments: Any, preview: Sequence[dict[str, Any]] | None = None) -> list[str]:
    """The whole call. Long texts are left to the preview, if there is one that has all of them."""
    lines: list[str] = []
    has_all = bool(preview) and not any(
        file.get("hiddenLines", file.get("hidden_lines")) for file in preview or ()
    )
    if isinstance(arguments, dict):
        for name, value in arguments.items():
            if has_all and isinstance(value, str) and ("\n" in value or len(value) > _LONGEST_TITLE):
                continue
            lines += _block(revealed(str(name), is_line=True), _text(value))
    else:
        lines += _block("", _text(arguments))
    for file in preview or ():
        lines += _file(file)
    return lines


def bounded(lines: Sequence[str], most: int, hint: str = "") -> list[str]:
    """The first lines, and how many more there are."""
    visible_lines = [
        line
        if len(line) <= _LONGEST_LINE
        else f"{line[:_LONGEST_LINE]}… ({len(line) - _LONGEST_LINE:,} more characters)"
        for line in lines[:most]
    ]
    hidden = lines[most:]
    if hidden or visible_lines != list(lines[:most]):
        more = f"{len(hidden):,} more line{'' if len(hidden) == 1 else 's'}" if hidden else "cut"
        visible_lines.append(f"… {more}{f': {hint}' if hint else ''}")
    return visible_lines


def _block(name: str, text: str) -> list[str]:
    first, *rest = revealed(text).split("\n")
    return [f"{name}: {first}" if name else first, *(f"  {line}" for line in rest)]


def _file(file: dict[str, Any]) -> list[str]:
    path = revealed(str(file.get("path", "")), is_line=True)
    added, removed = file.get("added", 0), file.get("removed", 0)
    hidden = file.get("hiddenLines", file.get("hidden_lines", 0))
    lines = [f"{file.get('change', 'change')} {path}: +{added} -{removed}"]
    if diff := str(file.get("diff", "")):
        lines += [f"  {line}" for line in revealed(diff).split("\n")]
    if hidden:
        lines.append(f"  … {hidden:,} more lines of this difference are not here")
    return lines


def _spelled(arguments: Any) -> str:
    """Names and values, as people write them and not as JSON."""
    if not isinstance(arguments, dict):
        return _text(arguments)
    return ", ".join(f"{name}: {_text(value)}" for name, value in arguments.items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _missing(text: str, visible: str) -> str:
    lines = text.count("\n")
    note = f"… ({len(visible) - _LONGEST_TITLE:,} more characters"
    return f"{note}, {lines + 1:,} lines in all)" if lines else f"{note})"


# The same approval as wire data: the calls, the possible answers, what each grants, what would change.


def calls_of(relay: Relay) -> list[Relay]:
    """Every call that a question stands for, as a question about that call alone; the first one is its own."""
    return [relay, *(_further_call(relay, call) for call in (relay.calls or [])[1:])]


def whole_text(relay: Relay) -> str:
    """All that a question for permission is about, for clients with one text for it: every call with its arguments."""
    parts = [
        "\n".join(
            [revealed(call.tool_name or "tool", is_line=True), *(lines_of(call.input) if call.input else [])]
        )
        for call in calls_of(relay)
    ]
    return "\n\n".join(parts)


def _further_call(relay: Relay, call: RelayCall) -> Relay:
    return Relay(
        id=relay.id,
        tool_name=call.tool,
        input=call.input,
        category=call.category,
        why=call.why if call.why != relay.why else "",
        run_id=relay.run_id,
    )


def calls_data(relay: Relay) -> list[QuestionedCall]:
    """The calls that a question stands for besides the first."""
    return [_call_data(call) for call in calls_of(relay)[1:]]


def every_call(relay: Relay) -> list[QuestionedCall] | None:
    """All calls that one answer is for; None where it is for the one call that a question states in any case."""
    calls = calls_of(relay)
    return [_call_data(call) for call in calls] if len(calls) > 1 else None


def _call_data(call: Relay) -> QuestionedCall:
    return {"toolName": call.tool_name, "input": call.input, "category": call.category, "why": call.why}


def choices_data(relay: Relay) -> list[QuestionOption] | None:
    """None if the approval has no choices."""
    if relay.choices is None:
        return None
    return [
        {
            "id": choice.id,
            "kind": choice.kind,
            "label": choice.label,
            "grants": [msgspec.to_builtins(grant) for grant in choice.grants],
        }
        for choice in relay.choices
    ]


def preview_data(relay: Relay) -> list[dict[str, Any]] | None:
    """None if no file would change."""
    if not isinstance(relay.preview, list):
        return None
    return [
        {_NAMES.get(str(name), str(name)): value for name, value in file.items()}
        for file in relay.preview
        if isinstance(file, dict)
    ]


_NAMES = {"hidden_lines": "hiddenLines"}


# Steering events in a few words each, for people who read a thread from top to bottom.


STEERING: tuple[type[Event], ...] = tuple(kind for kind in get_args(AnyEvent) if issubclass(kind, Steering))


def steering_words(event: Event) -> str:
    """One line; empty if the event is of no interest to a reader."""
    words = _WORDS.get(type(event))
    return "" if words is None else words(event)


def signal_text(signal: Signal) -> str:
    """The text of a signal, without its files."""
    contents = signal.contents
    if isinstance(contents, str):
        return contents
    parts = contents if isinstance(contents, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def briefing_words(event: Briefed) -> str:
    """Says that the agent was briefed, not with what: the conversation shows that already."""
    if event.form == "native":
        return f"{event.agent} continues this conversation as a session of its own ({event.session_id})"
    return f"{event.agent} was given a summary of what was said and decided without it ({len(event.text):,} characters)"


def _thread(event: ThreadCreated) -> str:
    origin = f" (cloned from {event.cloned_from})" if event.cloned_from else ""
    return f"thread {event.title or event.id}{origin}"


def _mode(event: ModeChanged) -> str:
    before = f"{event.previous_mode_id} → " if event.previous_mode_id else ""
    return f"mode {before}{event.mode_id}"


def _model(event: ModelChanged) -> str:
    return f"model {event.model_id}" + (f" for mode {event.mode_id}" if event.mode_id else "")


def _subagent_model(event: SubagentModelChanged) -> str:
    return f"model {event.model_id} for {event.agent_type or 'all'} sub-agents"


def _fork(event: Forked) -> str:
    return f"{event.agent_type or 'a sub-agent'} continues with a fork of this conversation"


def _workspace(event: WorkspaceChanged) -> str:
    return f"workspace failed: {event.error}" if event.status == "error" else ""


def _signal(event: Signal) -> str:
    return f"{event.tag_name}: {' '.join(signal_text(event).split())}"


def _goal(event: GoalChanged) -> str:
    goal = event.objective
    if goal is None:
        return "goal given up"
    status = goal.get("status")
    prefix = "goal" if status in (None, "active") else f"goal {gist(status)}"
    return f"{prefix}: {gist(goal.get('objective'))}"


def _evaluation(event: GoalEvaluated) -> str:
    payload = event.payload
    if payload.get("pending"):
        return ""
    status = "reached" if payload.get("passed") else gist(payload.get("status") or "not reached")
    count = f"{gist(payload.get('iteration'))}/{gist(payload.get('maxRuns'))}"
    reason = payload.get("pausedReason") or payload.get("reason")
    return f"goal {status}, attempt {count}" + (f": {gist(reason)}" if reason else "")


def _observed(event: ObservationEnd) -> str:
    return f"memory: {tokens(event.tokens_observed)} tokens noted in {tokens(event.observation_tokens)}"


def _activated(event: MemoryActivated) -> str:
    return f"memory: {event.messages_activated} messages replaced by {tokens(event.observation_tokens)} tokens of notes"


_WORDS: Mapping[type[Event], Callable[[Any], str]] = {
    ThreadCreated: _thread,
    ThreadRenamed: lambda event: f"renamed: {event.title}",
    ModeChanged: _mode,
    ModelChanged: _model,
    SubagentModelChanged: _subagent_model,
    SteeringQueued: lambda event: f"sent meanwhile: {' '.join(event.text.split())}",
    Briefed: briefing_words,
    Suspended: lambda _: "waits for an answer",
    Resumed: lambda _: "continues",
    Forked: _fork,
    WorkspaceChanged: _workspace,
    Signal: _signal,
    GoalChanged: _goal,
    GoalEvaluated: _evaluation,
    ObservationEnd: _observed,
    ObservationFailed: lambda event: f"memory: observation failed: {event.error}",
    ReflectionEnd: lambda event: f"memory: notes shortened to {tokens(event.compressed_tokens)} tokens",
    ReflectionFailed: lambda event: f"memory: reflection failed: {event.error}",
    BufferingFailed: lambda event: f"memory: {event.operation_type} ahead failed: {event.error}",
    MemoryActivated: _activated,
    MemoryModelChanged: lambda event: f"model {event.model_id} for the {event.role}",
}
