"""Harnesses for tests: scripted models, a record of everything that is emitted, and the stores that matter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

import postgres_server
from harness.contracts.model import Ask, SystemTurn, ToolSpec, ToolTurn, Turn, UserTurn
from harness.events import Event
from harness.folds.session.encoding import to_wire
from harness.folds.session.events import HarnessEvent
from harness.log.store import Store, read_all
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.log.stores.postgres.store import PostgresStore
from harness.models.scripted import Scripted
from harness.session.config import Mode
from harness.session.harness import Harness
from harness.session.session import Session

Told = TypeVar("Told", bound=HarnessEvent)
Value = TypeVar("Value")

STORES = ("memory", "files", "postgres")


def run(work: Callable[..., Awaitable[Value]], *arguments: Any) -> Value:
    """Do it in an event loop of its own."""

    async def main() -> Value:
        return await work(*arguments)

    return asyncio.run(main())


class StoreMaker:
    """`open()` gives the same storage again, as another process would open it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._memory = MemoryStore()
        self._folder = str(folder / "data")
        self._url = postgres_server.url() if kind == "postgres" else ""
        self._opened: list[Store] = []

    def open(self) -> Store:
        if self.kind == "memory":
            return self._memory
        store: Store = FileStore(self._folder) if self.kind == "files" else PostgresStore(self._url)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


def stores(folder: Path, kind: str) -> Iterator[StoreMaker]:
    maker = StoreMaker(kind, folder)
    yield maker
    maker.close()


@pytest.fixture(params=STORES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreMaker]:
    """Every store there is."""
    yield from stores(tmp_path, request.param)


class Model:
    """A scripted model that keeps what it was asked. Said is what the script says, then `default` for ever."""

    def __init__(self, *responses: Any, name: str = "test/model", default: str = "Yes.") -> None:
        self.name = name
        self.asked: list[tuple[tuple[Turn, ...], tuple[ToolSpec, ...], str]] = []
        self._left, self._default = len(responses), default
        self._model = Scripted([*responses, default], name=name)

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        system = next((turn.text for turn in ask.turns if isinstance(turn, SystemTurn)), "")
        self.asked.append((tuple(ask.turns), tuple(ask.tools), system))
        self._left -= 1
        model = self._model if self._left >= 0 else Scripted([self._default], name=self.name)
        return model.answer(ask)

    def received(self, index: int = -1) -> list[str]:
        """What users said, as the model saw it."""
        return [turn.text for turn in self.asked[index][0] if isinstance(turn, UserTurn)]

    def results(self, index: int = -1) -> list[str]:
        """What its calls gave it."""
        return [turn.text for turn in self.asked[index][0] if isinstance(turn, ToolTurn)]

    def tool_names(self, index: int = -1) -> list[str]:
        return [tool.name for tool in self.asked[index][1]]

    def system(self, index: int = -1) -> str:
        return self.asked[index][2]


def call(name: str, id: str = "c1", **input: Any) -> dict[str, Any]:
    """A response that calls a tool."""
    return {"events": [{"type": "tool_call", "name": name, "id": id, "input": input}]}


def calls(*names: tuple[str, str]) -> dict[str, Any]:
    """A response that calls several: (id, name) each."""
    return {"events": [{"type": "tool_call", "id": id, "name": name, "input": {}} for id, name in names]}


def used(text: str, **tokens: int) -> dict[str, Any]:
    """A response that says what it used."""
    return {"events": [{"type": "text", "content": text}, {"type": "usage", **tokens}]}


class Record:
    """What a listener receives, as it was at that moment."""

    def __init__(self, session: Session | None = None) -> None:
        self.events: list[HarnessEvent] = []
        self.wire: list[dict[str, Any]] = []
        self.changes = 0
        self._changed = asyncio.Event()
        if session is not None:
            session.subscribe(self)

    def __call__(self, event: HarnessEvent) -> None:
        if event.type == "display_state_changed":
            self.changes += 1
        else:
            self.events.append(event)
            self.wire.append(to_wire(event))
        self._changed.set()

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def of(self, kind: type[Told]) -> list[Told]:
        return [event for event in self.events if isinstance(event, kind)]

    def named(self, *names: str) -> list[dict[str, Any]]:
        return [data for data in self.wire if data["type"] in names]

    def clear(self) -> None:
        self.events.clear()
        self.wire.clear()
        self.changes = 0

    async def until(self, condition: Callable[[], object], timeout_s: float = 60) -> None:
        """Wait for something to be true; looked at after each event."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def until_emitted(self, name: str) -> dict[str, Any]:
        """Wait for an event of that name, and give the latest."""
        await self.until(lambda: self.named(name))
        return self.named(name)[-1]


def make(
    model: Model | None = None, *, modes: Sequence[Mode] = (Mode(id="build"),), **options: Any
) -> Harness:
    """A harness whose every model id is this model."""
    chosen = model or Model()
    state = {"currentModelId": "test/model", **options.pop("initial_state", {})}
    options.setdefault("resolve_model", lambda _model_id: chosen)
    return Harness(id=options.pop("id", "h"), modes=modes, initial_state=state, environ={}, **options)


@asynccontextmanager
async def opened(model: Model | None = None, **options: Any) -> AsyncIterator[tuple[Harness, Record]]:
    """An initialised harness with a record of its own session, destroyed at the end."""
    harness = make(model, **options)
    record = Record(harness.session)
    await harness.init()
    try:
        yield harness, record
    finally:
        await harness.destroy()


def log_of(harness: Harness, thread_id: str = "") -> list[Event]:
    """All events of a thread."""
    return list(read_all(harness.store, thread_id or harness.session.thread.require_id()))


async def later() -> None:
    """Until the clock of logs shows another time: what was changed in one millisecond was changed at once."""
    await asyncio.sleep(0.002)
