"""The scripted model: it answers with the turns of a script, without a network.

    Scripted(["Hello.", [{"text": "Let me look."}, {"tool": "read", "input": {"path": "a.txt"}}]])

A turn is a text, a part, a list of parts (see `harness.contracts.script`), or a function that takes the
request and returns one of these. `scripted/FILE` reads the turns from a file. Calls by intent and wire faults
need an agent or a server: the lab has both (`harness lab`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from harness.contracts.model import Ask, AssistantTurn, Model, ToolTurn, UserTurn
from harness.contracts.script import (
    MAIN,
    Script,
    ScriptConversation,
    ScriptError,
    ScriptReasoning,
    ScriptText,
    ScriptToolCall,
    ScriptTurn,
    fill_placeholders,
)
from harness.errors import UsageError
from harness.events import Event
from harness.models.answer import ModelAnswer
from harness.models.script_file import parse_turn, read_script
from harness.models.turn_cache import encode

ScriptedTurn: TypeAlias = str | ScriptTurn | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A text, a turn, or a turn in the form of a script file."""


class Scripted(Model):
    """Implements `Model`. Each call takes the next turn, unless turns are chosen by conversation."""

    def __init__(
        self,
        responses: Sequence[ScriptedTurn | Callable[[Ask], ScriptedTurn]],
        *,
        name: str = "scripted/script",
        lanes: Mapping[str, Sequence[ScriptedTurn]] | None = None,
        pause_ms: int = 0,
        goes_by: Literal["call", "conversation"] = "call",
    ) -> None:
        """`lanes` maps a text to the turns of the conversations whose first message contains it.

        `goes_by="conversation"`: the number of answers in the conversation selects the next turn; after the
        last turn it starts again with the first. Raises UsageError for a turn that cannot be read.
        """
        self.name = name
        self._pause_s = pause_ms / 1000
        is_by_call = goes_by == "call"
        how = ScriptConversation(
            turns=(), order="arrival" if is_by_call else "conversation", start_over=not is_by_call
        )
        self._main = _Conversation(how, responses)
        self._others = {marker: _Conversation(how, turns) for marker, turns in (lanes or {}).items()}

    @classmethod
    def from_script(cls, script: Script, name: str) -> Scripted:
        """A model that follows a script which was read from a file. Raises UsageError for one that only the lab can follow."""
        model = cls([], name=name, pause_ms=script.pause_ms)
        for key, conversation in script.conversations.items():
            conversation_state = _Conversation(conversation, conversation.turns)
            if key == MAIN:
                model._main = conversation_state
            else:
                model._others[conversation.marker] = conversation_state
        return model

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        """Answer with the next turn of the script, as events."""
        answer = ModelAnswer(self.name)
        for _ in _say(self._conversation(ask).next(ask), answer, ask):
            if self._pause_s:
                for event in answer.events:
                    yield event
                answer.events.clear()
                await asyncio.sleep(self._pause_s)
        for event in answer.events:
            yield event

    def _conversation(self, ask: Ask) -> _Conversation:
        if self._others:
            opening = next((turn.text for turn in ask.turns if isinstance(turn, UserTurn)), "")
            for marker, conversation in self._others.items():
                if marker in opening:
                    return conversation
        return self._main


class _Conversation:
    """The turns of one conversation of a script, and how many have been used."""

    def __init__(
        self, how: ScriptConversation, turns: Sequence[ScriptedTurn | Callable[[Ask], ScriptedTurn]]
    ) -> None:
        self._functions = {number: turn for number, turn in enumerate(turns) if callable(turn)}
        script_turns = tuple(ScriptTurn(parts=()) if callable(turn) else _turn(turn) for turn in turns)
        self._script = replace(how, turns=script_turns)
        self._numbers = itertools.count()

    def next(self, ask: Ask) -> ScriptTurn:
        if self._script.order == "arrival":
            number = next(self._numbers)
        else:
            number = sum(isinstance(turn, AssistantTurn) for turn in ask.turns)
        turn = self._script.turn_at(number)
        if turn is None:
            over = ScriptError(error=f"no scripted response at index {number}", code="script_over")
            return ScriptTurn(parts=(over,))
        function = self._functions.get(number % len(self._script.turns))
        return _turn(function(ask)) if function else turn


def _turn(scripted_turn: ScriptedTurn) -> ScriptTurn:
    try:
        turn = scripted_turn if isinstance(scripted_turn, ScriptTurn) else parse_turn(scripted_turn)
    except UsageError as error:
        raise UsageError(f"a scripted response cannot be read: {error.message}", hint=error.hint) from None
    hint = "serve the script with `harness lab serve`"
    if turn.faults:
        raise UsageError(f"{turn.place}: a fault needs a server", hint=hint)
    if not all(
        isinstance(part, ScriptText | ScriptReasoning | ScriptToolCall | ScriptError) for part in turn.parts
    ):
        raise UsageError(f"{turn.place}: a call by intent needs an agent; name a tool instead", hint=hint)
    return turn


def _say(turn: ScriptTurn, answer: ModelAnswer, ask: Ask) -> Iterator[None]:
    """Stream the turn, step by step."""
    for part in turn.parts:
        match part:
            case ScriptText():
                for piece in _cut(part.text, part.pieces or 1):
                    answer.add_text(piece)
                    yield
            case ScriptReasoning():
                for piece in _cut(part.reasoning, part.pieces or 1):
                    answer.add_reasoning(piece)
                    yield
            case ScriptToolCall():
                arguments = (
                    part.input if part.literal else fill_placeholders(part.input, _latest_results(ask))
                )
                call = answer.begin_call(part.id, part.tool)
                answer.add_arguments(
                    call, arguments if isinstance(arguments, str) else encode(arguments).decode()
                )
                yield
            case ScriptError():
                answer.fail(part.error, part.code)
                return
    answer.usage = answer.usage.plus(turn.usage)
    answer.end(turn.stop or "end")


def _latest_results(ask: Ask) -> tuple[str, ...]:
    """The results of the latest tool calls."""
    after = itertools.takewhile(lambda turn: not isinstance(turn, AssistantTurn), reversed(ask.turns))
    return tuple(turn.text for turn in after if isinstance(turn, ToolTurn))[::-1]


def _cut(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]


BUILT_IN = {"demo": "demo.toml", "demo-fix": "demo_fix.toml"}
"""Scripts that are part of Harness: a first look, and what `harness demo` shows."""


def open_script(path: str) -> Scripted:
    """The model of a script file, or of one that is built in. Raises UsageError, naming file and mistake."""
    place = str(files("harness.models").joinpath(BUILT_IN[path])) if path in BUILT_IN else path
    return Scripted.from_script(read_script(place), f"scripted/{path}")
