"""A script in one agent's own words: meanings become its tools, and inputs take what earlier results hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.lab.bench import Bench, Place
from harness.lab.meaning import Agent, name_of
from harness.lab.script import Alternatives, Content, Lane, Reasoning, Script, Text, ToolCall, Turn

_PLACEHOLDER = re.compile(r"\{\{(?:(all|each|[1-9]\d?) )?(.+)\}\}", re.DOTALL)


def render(script: Script, bench: Bench | None, place: Place | None) -> Mapping[str, Lane]:
    """The lanes with nothing but texts, reasoning and the agent's own tools.

    Raises UsageError for a call by meaning that cannot be made.
    """
    lanes = script.lanes
    if bench is not None and bench.agent_end is not None:
        lanes = _with_ends(lanes, bench.agent_end)
    return {name: _rendered(lane, bench, place) for name, lane in lanes.items()}


def filled(value: Any, results: tuple[str, ...]) -> Any:
    """An input with what it takes from the latest results; where there is no match, with an empty text."""

    def match(which: str, expression: str) -> Any:
        found = [
            found.group(found.lastindex or 0) for text in results for found in re.finditer(expression, text)
        ]
        values = [int(text) if text.isascii() and text.isdecimal() else text for text in found]
        if which == "all":
            return values
        return values[int(which) - 1] if int(which) <= len(values) else ""

    return _replaced(value, match)


def _replaced(value: Any, put: Callable[[str, str], Any]) -> Any:
    """An input with another value for each placeholder: `put(which, expression)`."""
    if isinstance(value, dict):
        return {name: _replaced(inner, put) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, put) for inner in value]
    found = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else put(found[1] or "1", found[2])


def _owned(call: ToolCall, number: int) -> ToolCall:
    """The same with `each` made the number of the meaning that it belongs to."""

    def keep(which: str, expression: str) -> str:
        return f"{{{{{number if which == 'each' else which} {expression}}}}}"

    return msgspec.structs.replace(call, input=_replaced(call.input, keep))


def _with_ends(lanes: dict[str, Lane], end: Callable[[str], ToolCall]) -> dict[str, Lane]:
    """The lanes of sub-agents, whose last words are a call."""
    prompts = [
        part.prompt
        for lane in lanes.values()
        for turn in lane.turns
        for part in turn.parts
        if isinstance(part, Agent)
    ]
    ended = {}
    for name, lane in lanes.items():
        last = lane.turns[-1]
        text = "".join(part.text for part in last.parts if isinstance(part, Text))
        is_text = all(isinstance(part, Text | Reasoning) for part in last.parts)
        if is_text and lane.marker and any(lane.marker in prompt for prompt in prompts):
            last = msgspec.structs.replace(last, parts=(end(text),))
        ended[name] = msgspec.structs.replace(lane, turns=(*lane.turns[:-1], last))
    return ended


def _rendered(lane: Lane, bench: Bench | None, place: Place | None) -> Lane:
    turns: list[Turn] = []
    for turn in lane.turns:
        now: list[Content] = []
        then: list[Content] = []
        followed = 0
        for part in turn.parts:
            if isinstance(part, Text | Reasoning | ToolCall | Alternatives):
                now.append(part)
                continue
            what = f"{turn.place}: `{name_of(part)}` is a call by meaning"
            if bench is None or place is None:
                raise UsageError(what, hint="say for which agent with --agent, or call its tool by name")
            if name_of(part) not in bench.calls:
                raise UsageError(
                    f"{what} that this agent lacks: {bench.lacks.get(name_of(part), 'no such tool')}"
                )
            steps = bench.render(part, place)
            now += steps.calls
            followed += bool(steps.then)
            then += [_owned(call, followed) for call in steps.then]
        turns.append(msgspec.structs.replace(turn, parts=tuple(now)))
        if then:
            turns.append(Turn(parts=tuple(then), tokens=turn.tokens, place=turn.place))
    return msgspec.structs.replace(lane, turns=tuple(turns))


def wrong_expression(value: Any) -> str:
    """What is wrong with the expressions that an input holds; empty when nothing is."""
    mistakes: list[str] = []

    def check(_which: str, expression: str) -> None:
        try:
            re.compile(expression)
        except re.error as error:
            mistakes.append(f"{expression!r} is no regular expression: {error}")

    _replaced(value, check)
    return next(iter(mistakes), "")
