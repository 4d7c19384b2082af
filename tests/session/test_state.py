"""The application's own state: checked whole, changed in order."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pydantic
import pytest

from harness.errors import UsageError
from harness.events import Event, Info, StateChanged
from harness.session.state import SessionState, StateUpdate


class Settings(msgspec.Struct):
    count: int = 0
    name: str = "none"
    tags: list[str] = msgspec.field(default_factory=list)


class PydanticSettings(pydantic.BaseModel):
    count: int = 0
    name: str = "none"
    tags: list[str] = pydantic.Field(default_factory=list)


JSON_SETTINGS = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "default": 0},
        "name": {"type": "string", "default": "none"},
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
    },
}
SCHEMAS = [Settings, PydanticSettings, JSON_SETTINGS]
ids = ["msgspec", "pydantic", "json-schema"]


def state(schema: Any = None, initial: dict[str, Any] | None = None) -> tuple[SessionState, list[Event]]:
    emitted: list[Event] = []
    return SessionState(schema, initial, emitted.append), emitted


@pytest.mark.parametrize("schema", SCHEMAS, ids=ids)
def test_defaults_come_from_the_schema_and_initial_values_beat_them(schema: Any) -> None:
    kept, emitted = state(schema, {"name": "mine"})
    assert kept.get() == {"count": 0, "name": "mine", "tags": []}
    assert emitted == []


@pytest.mark.parametrize("schema", SCHEMAS, ids=ids)
def test_an_invalid_update_is_refused_and_changes_nothing(schema: Any) -> None:
    async def run() -> None:
        kept, emitted = state(schema, {"count": 3})
        with pytest.raises(UsageError, match=r"Invalid state update: .*count"):
            await kept.set({"count": "many", "name": "other"})
        assert kept.get()["count"] == 3
        assert kept.get()["name"] == "none"
        assert emitted == []
        await kept.set({"count": 4})
        assert kept.get()["count"] == 4

    asyncio.run(run())


def test_several_problems_are_reported_together() -> None:
    async def run() -> None:
        kept, _ = state(JSON_SETTINGS)
        with pytest.raises(UsageError, match=r"count: .*; name: "):
            await kept.set({"count": "x", "name": 1})

    asyncio.run(run())


def test_what_is_not_in_the_schema_may_be_stored_too() -> None:
    async def run() -> None:
        kept, emitted = state(Settings)
        await kept.set({"extra": {"a": 1}})
        assert kept.get()["extra"] == {"a": 1}
        assert emitted == [StateChanged(changes={"extra": {"a": 1}})]

    asyncio.run(run())


def test_a_snapshot_does_not_change_with_the_state() -> None:
    async def run() -> None:
        kept, _ = state(None, {"a": 1})
        before = kept.get()
        before["a"] = 99
        await kept.set({"b": 2})
        assert kept.get() == {"a": 1, "b": 2}
        assert before == {"a": 99}

    asyncio.run(run())


def test_transactions_follow_one_another() -> None:
    async def run() -> None:
        kept, emitted = state(None, {"n": 0})

        async def add(now: dict[str, Any]) -> StateUpdate:
            await asyncio.sleep(0)
            return StateUpdate(
                updates={"n": now["n"] + 1}, events=[Info(message=str(now["n"]))], result=now["n"]
            )

        assert await asyncio.gather(*(kept.update(add) for _ in range(20))) == list(range(20))
        assert kept.get() == {"n": 20}
        assert [type(event) for event in emitted[:4]] == [StateChanged, Info, StateChanged, Info]

    asyncio.run(run())


def test_a_transaction_that_fails_does_not_hold_up_the_next() -> None:
    async def run() -> None:
        kept, _ = state(None, {"n": 1})

        def broken(_now: dict[str, Any]) -> StateUpdate:
            raise RuntimeError("no")

        with pytest.raises(RuntimeError):
            await kept.update(broken)
        assert await kept.update(lambda now: StateUpdate(updates={"n": now["n"] + 1}, result="yes")) == "yes"
        assert kept.get() == {"n": 2}

    asyncio.run(run())


def test_a_transaction_without_updates_emits_nothing() -> None:
    async def run() -> None:
        kept, emitted = state(None, {"n": 1})
        assert await kept.update(lambda now: StateUpdate(result=now["n"])) == 1
        assert emitted == []

    asyncio.run(run())


def test_what_is_no_schema_is_refused_with_what_to_give() -> None:
    with pytest.raises(UsageError, match="cannot be a int"):
        state(3)


def test_a_transaction_may_answer_with_a_mapping() -> None:
    async def run() -> None:
        kept, emitted = state(None, {"n": 1})
        assert await kept.update(lambda now: {"updates": {"n": now["n"] + 1}, "result": "two"}) == "two"
        assert kept.get() == {"n": 2}
        assert [type(event) for event in emitted] == [StateChanged]
        with pytest.raises(UsageError, match="Invalid state update"):
            await kept.update(lambda _now: {"changes": {"n": 3}})
        assert kept.get() == {"n": 2}

    asyncio.run(run())
