"""A model that was asked once and is not asked again: its answers are in a file, and tests replay them.

    async with opened(build, recorded("runs/fix.jsonl", "anthropic/claude-sonnet-4-6")) as app:
        outcome = await app.send("fix it")

Without the file the model is asked, and the file is written; with it nothing leaves the process. The file holds what the
model answered, and of what it was asked only the shape: a request of another shape is an error that names the file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import msgspec

from harness.contracts.model import Ask, Model, Turn
from harness.errors import UsageError
from harness.events import Error, Event, StepEnd
from harness.log import codec
from harness.models.registry import open_model

CODE = "recording"


class AskShape(msgspec.Struct, frozen=True):
    """What must be the same when an answer is given again."""

    roles: list[str]
    """Of the turns, the system prompt included."""
    tools: list[str]

    @classmethod
    def of(cls, ask: Ask) -> AskShape:
        return cls(roles=_roles(ask.turns), tools=sorted(tool.name for tool in ask.tools))

    def difference(self, now: AskShape) -> str:
        """In words; empty: there is none."""
        if self.tools != now.tools:
            return f"tools {_words(self.tools)} then, {_words(now.tools)} now"
        if self.roles != now.roles:
            return f"turns {_words(self.roles)} then, {_words(now.roles)} now"
        return ""


class RecordedAnswer(msgspec.Struct, frozen=True):
    ask: AskShape
    events: list[msgspec.Raw]


class RecordedModel:
    """Implements `Model`; made by `recorded`."""

    def __init__(self, path: Path, model: Model | None) -> None:
        self.name: str = model.name if model is not None else "recorded/model"
        self._path = path
        self._model = model
        self._answers = _read(path) if model is None else iter(())

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        """The next answer of the file, or of the model, which is then added to the file."""
        return self._replay(ask) if self._model is None else self._record(ask, self._model)

    async def _record(self, ask: Ask, model: Model) -> AsyncIterator[Event]:
        events: list[Event] = []
        async for event in model.answer(ask):
            events.append(event)
            yield event
        raw = [msgspec.Raw(codec.encode(event)) for event in events]
        line = msgspec.json.encode(RecordedAnswer(AskShape.of(ask), raw))
        with self._path.open("ab") as file:
            file.write(line + b"\n")

    async def _replay(self, ask: Ask) -> AsyncIterator[Event]:
        answer = next(self._answers, None)
        if answer is None:
            problem = "it has no further answer"
        elif difference := answer.ask.difference(AskShape.of(ask)):
            problem = f"the model is asked something else: {difference}"
        else:
            for raw in answer.events:
                yield codec.decode(bytes(raw))
            return
        yield Error(message=f"{self._path}: {problem} (delete the file to record it anew)", code=CODE)
        yield StepEnd(id=CODE, stop_reason="error")


def recorded(path: str | Path, model: str | Model = "") -> RecordedModel:
    """The model of a test: the answers in this file, or, while there is none, those of `model`, which are written to it.

    Raises UsageError without a file and without a model, and for a file that is no recording.
    """
    file = Path(path)
    if file.exists():
        return RecordedModel(file, None)
    if not model:
        raise UsageError(f"there is no recording {file}", hint='record one: recorded(path, "provider/model")')
    return RecordedModel(file, open_model(model) if isinstance(model, str) else model)


def _read(path: Path) -> Iterator[RecordedAnswer]:
    try:
        lines = [line for line in path.read_bytes().split(b"\n") if line]
        return iter([msgspec.json.decode(line, type=RecordedAnswer) for line in lines])
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path} is no recording of a model: {error}", hint="delete it") from error


def _roles(turns: Sequence[Turn]) -> list[str]:
    return [str(turn.__struct_config__.tag) for turn in turns]


def _words(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
