"""A state with a schema: converted, completed, the same after a restart, and strict schemas beside our own keys."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import math
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from harness.errors import UsageError
from harness.log.stores.memory import MemoryStore
from harness.session.state import SessionState
from harness_kit import StoreMaker, opened, run, storage

__all__ = ["storage"]

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Color(enum.Enum):
    RED = "red"


class Place(msgspec.Struct):
    x: int = 1


class Settings(msgspec.Struct, omit_defaults=True):
    place: Place = msgspec.field(default_factory=Place)
    when: datetime = WHEN
    tags: set[str] = msgspec.field(default_factory=lambda: {"b", "a"})
    pair: tuple[int, str] = (1, "one")
    blob: bytes = b"\xff"
    scores: dict[int, float] = msgspec.field(default_factory=lambda: {1: 0.5})
    id: uuid.UUID = uuid.UUID(int=1)
    price: Decimal = Decimal("1.50")
    color: Color = Color.RED
    count: int = msgspec.field(default=0, name="howMany")
    maybe: int | msgspec.UnsetType = msgspec.UNSET


class PydanticPlace(pydantic.BaseModel):
    x: int = pydantic.Field(default=1, alias="X")


class PydanticSettings(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    place: PydanticPlace = PydanticPlace()
    when: datetime = WHEN
    tags: set[str] = {"b", "a"}
    pair: tuple[int, str] = (1, "one")
    blob: bytes = b"\xff"
    scores: dict[int, float] = {1: 0.5}
    id: uuid.UUID = uuid.UUID(int=1)
    price: Decimal = Decimal("1.50")
    color: Color = Color.RED
    count: int = pydantic.Field(default=0, alias="howMany")
    path: Path = Path("a/b")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.count


@dataclasses.dataclass
class DataSettings:
    place: Place = dataclasses.field(default_factory=Place)
    tags: set[str] = dataclasses.field(default_factory=lambda: {"b", "a"})
    howMany: int = 0  # noqa: N815 as in the other schemas


class TypedSettings(TypedDict, total=False):
    place: Place
    tags: set[str]
    howMany: int


SCHEMAS: dict[str, Any] = {
    "msgspec": Settings,
    "pydantic": PydanticSettings,
    "dataclass": DataSettings,
    "typed dict": TypedSettings,
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_values_have_their_types_before_a_restart_and_after_it(schema: Any, storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open(), state_schema=schema) as (harness, _):
            await harness.create_thread()
            # The `X` of pydantic is no name for the others, and is left out there.
            await harness.session.state.set(
                {"place": {"x": 7, "X": 7}, "tags": {"c", "d"}, "howMany": 3, "extra": [1]}
            )
            before = harness.session.state.get()
            assert before["place"].x == 7
            assert before["tags"] == {"c", "d"}
            assert before["howMany"] == 3
        async with opened(storage=storage.open(), state_schema=schema) as (harness, record):
            await harness.select_or_create_thread()
            after = harness.session.state.get()
            assert {key: after[key] for key in before} == before
            assert {key: type(after[key]) for key in before} == {key: type(before[key]) for key in before}
            await harness.session.state.set({"howMany": 4})
            assert harness.session.state.get()["place"].x == 7
            assert record.named("state_changed")[-1]["state"]["tags"] in (["c", "d"], ["d", "c"])

    run(work)


@pytest.mark.parametrize("name", ["msgspec", "pydantic"])
def test_nested_defaults_can_be_used_from_the_first_moment_on(name: str) -> None:
    state = SessionState(SCHEMAS[name], None, lambda _event: None)
    made: Any = SCHEMAS[name]()
    values = state.get()
    assert values["place"].x == 1
    assert values["howMany"] == 0
    for key in ("when", "tags", "pair", "blob", "scores", "id", "price", "color"):
        assert values[key] == getattr(made, key), key


def test_pydantic_converts_what_it_is_given() -> None:
    async def work() -> None:
        class Counted(pydantic.BaseModel):
            count: int = 0

            @pydantic.field_validator("count")
            @classmethod
            def positive(cls, value: int) -> int:
                return abs(value)

        emitted: list[Any] = []
        state = SessionState(Counted, {"count": "-5"}, emitted.append)
        assert state.get() == {"count": 5}
        await state.set({"count": "7"})
        assert state.get() == {"count": 7}
        assert emitted[-1].changes == {"count": 7}

    asyncio.run(work())


def test_a_value_that_the_schema_changes_along_with_another_is_reported_too() -> None:
    async def work() -> None:
        class Total(pydantic.BaseModel):
            parts: list[int] = []
            total: int = 0

            @pydantic.model_validator(mode="after")
            def add(self) -> Total:
                self.total = sum(self.parts)
                return self

        emitted: list[Any] = []
        state = SessionState(Total, None, emitted.append)
        await state.set({"parts": [1, 2]})
        assert state.get() == {"parts": [1, 2], "total": 3}
        assert emitted[-1].changes == {"parts": [1, 2], "total": 3}

    asyncio.run(work())


def test_strict_pydantic_models_are_read_again_from_a_log() -> None:
    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True)
        when: datetime = WHEN
        tags: set[str] = {"a"}

    async def work() -> None:
        store = MemoryStore()
        for _ in range(2):
            async with opened(storage=store, state_schema=Strict) as (harness, _):
                await harness.select_or_create_thread()
                with pytest.raises(UsageError, match="when"):
                    await harness.session.state.set({"when": "2026-01-01"})
                await harness.session.state.set({"when": WHEN.replace(year=2027)})
                assert harness.session.state.get()["when"].year == 2027

    run(work)


def test_a_json_schema_completes_what_is_inside_and_inside_of_references() -> None:
    place = {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}
    schema = {
        "$defs": {"place": place},
        "properties": {
            "one": {"$ref": "#/$defs/place", "default": {}},
            "many": {"type": "array", "items": {"$ref": "#/$defs/place"}, "default": [{}, {"x": 2}]},
        },
    }
    assert SessionState(schema, None, lambda _event: None).get() == {
        "one": {"x": 1},
        "many": [{"x": 1}, {"x": 2}],
    }


class Point(NamedTuple):
    x: int


_circle: list[Any] = []
_circle.append(_circle)
UNSTORABLE: dict[str, Any] = {
    "nan": math.nan,
    "infinity": -math.inf,
    "bytes": b"x",
    "set": {1},
    "date": WHEN,
    "struct": Place(),
    "model": PydanticPlace(),
    "enum": Color.RED,
    "object": object(),
    "key": {1: 2},
    "deep": {"a": [{"b": math.nan}]},
    "huge": 2**70,
    "endless": _circle,
    "named tuple": Point(1),
}


@pytest.mark.parametrize("value", UNSTORABLE.values(), ids=UNSTORABLE)
def test_what_cannot_be_stored_is_refused_when_it_is_set(value: Any) -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, record):
            await harness.create_thread()
            record.clear()
            with pytest.raises(UsageError, match=r"Invalid state update: a.*(JSON|deeply)"):
                await harness.session.state.set({"a": value, "fine": 1})
            assert "fine" not in harness.session.state.get()
            assert record.types == []

    run(work)


def test_an_infinite_number_is_refused_where_a_schema_would_allow_it() -> None:
    class Limits(msgspec.Struct):
        most: float = 1.0

    class PydanticLimits(pydantic.BaseModel):
        most: float = 1.0

    async def work(schema: Any) -> None:
        state = SessionState(schema, None, lambda _event: None)
        with pytest.raises(UsageError, match="most: inf"):
            await state.set({"most": math.inf})
        assert state.get() == {"most": 1.0}

    for schema in (Limits, PydanticLimits):
        asyncio.run(work(schema))


def test_what_is_set_is_the_sessions_own_from_then_on() -> None:
    async def work() -> None:
        given = {"list": [1]}
        state = SessionState(None, None, lambda _event: None)
        await state.set({"a": given, "b": (1, 2)})
        given["list"].append(2)
        assert state.get() == {"a": {"list": [1]}, "b": [1, 2]}

    asyncio.run(work())


class StrictStruct(msgspec.Struct, forbid_unknown_fields=True):
    count: int = 0


class StrictModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    count: int = 0


STRICT: dict[str, Any] = {
    "msgspec": StrictStruct,
    "pydantic": StrictModel,
    "json schema": {
        "type": "object",
        "properties": {"count": {"type": "integer", "default": 0}},
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize("schema", STRICT.values(), ids=STRICT)
def test_strict_schemas_work_beside_what_the_harness_keeps_itself(schema: Any, storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open(), state_schema=schema) as (harness, _):
            session = harness.session
            await harness.create_thread()
            await session.permissions.set_for_tool(tool_name="bash", policy="deny")
            await session.permissions.set_for_category(category="read", policy="allow")
            await session.om.observer.switch_model(model_id="test/observer")
            await session.om.reflector.switch_model(model_id="test/reflector")
            await session.subagents.model.set(model_id="test/one")
            await session.subagents.model.set(model_id="test/two", agent_type="explore")
            await session.state.set({"yolo": True, "projectPath": "/x", "count": 1})
            with pytest.raises(UsageError, match="bogus"):
                await session.state.set({"bogus": 1})
        async with opened(storage=storage.open(), state_schema=schema) as (harness, _):
            await harness.select_or_create_thread()
            session = harness.session
            assert session.permissions.is_denied("bash")
            assert session.subagents.model.get(agent_type="explore") == "test/two"
            assert session.state.get()["count"] == 1
            assert not session.state.get()["yolo"]

    run(work)


def test_a_schema_that_names_one_of_our_keys_is_asked_about_it() -> None:
    class Careful(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        yolo: bool = False

    async def work() -> None:
        state = SessionState(Careful, None, lambda _event: None)
        assert state.get() == {"yolo": False}
        with pytest.raises(UsageError, match="yolo"):
            await state.set({"yolo": "perhaps"})

    asyncio.run(work())


def test_our_own_keys_are_checked_where_no_schema_does() -> None:
    async def work() -> None:
        state = SessionState(None, None, lambda _event: None)
        for wrong in ({"observationThreshold": "many"}, {"currentModelId": 5}, {"subagentModelId_x": [1]}):
            with pytest.raises(UsageError, match=next(iter(wrong))):
                await state.set(wrong)
        assert state.get() == {}

    asyncio.run(work())


class AsList(msgspec.Struct, array_like=True):
    count: int = 0


class Hidden(pydantic.BaseModel):
    secret: str = pydantic.Field(default="", exclude=True)


class Root(pydantic.RootModel[dict[str, int]]):
    pass


WRONG: dict[str, Any] = {
    "bad json schema": {"type": "nothing"},
    "array": AsList,
    "excluded": Hidden,
    "root": Root,
    "instance": PydanticSettings(),
    "int": int,
    "list": [1],
    "text": "state",
}


@pytest.mark.parametrize("schema", WRONG.values(), ids=WRONG)
def test_what_is_no_schema_of_a_state_is_refused_with_what_would_be_one(schema: Any) -> None:
    with pytest.raises(UsageError, match="schema c") as caught:
        SessionState(schema, None, lambda _event: None)
    assert "pydantic" in caught.value.hint


@pytest.mark.parametrize("schema", STRICT.values(), ids=STRICT)
def test_initial_values_that_do_not_fit_are_reported_at_once(schema: Any) -> None:
    wrong: tuple[Callable[[], Any], ...] = (lambda: 5, lambda: "x", lambda: {"count": []}, lambda: {1: 2})
    for make in wrong:
        with pytest.raises(UsageError):
            SessionState(schema, make(), lambda _event: None)


def test_setting_the_state_within_a_transaction_is_an_error_and_no_silence() -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, _):
            state = harness.session.state
            await harness.create_thread()

            async def nested(_now: dict[str, Any]) -> dict[str, Any]:
                await state.set({"inside": 1})
                return {}

            async def nested_update(_now: dict[str, Any]) -> dict[str, Any]:
                await state.update(lambda now: {"result": now})
                return {}

            async def nested_rule(_now: dict[str, Any]) -> dict[str, Any]:
                await harness.session.permissions.set_for_tool(tool_name="bash", policy="deny")
                return {}

            for transaction in (nested, nested_update, nested_rule):
                async with asyncio.timeout(60):
                    with pytest.raises(UsageError, match="within a transaction"):
                        await state.update(transaction)
            await state.set({"after": 1})
            assert state.get()["after"] == 1

    run(work)


def test_another_task_that_sets_the_state_meanwhile_waits_its_turn() -> None:
    async def work() -> None:
        state = SessionState(None, None, lambda _event: None)
        go = asyncio.Event()

        async def slow(_now: dict[str, Any]) -> dict[str, Any]:
            await go.wait()
            return {"updates": {"order": "first"}}

        first = asyncio.create_task(state.update(slow))
        await asyncio.sleep(0)
        second = asyncio.create_task(state.set({"order": "second"}))
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(first, second)
        assert state.get() == {"order": "second"}

    asyncio.run(work())
