"""Every parameter of every public method names a value of a wrong type, and nothing is done with it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from harness import Harness, Memory, UsageError
from harness_kit import Model, opened, run


class Odd:
    """Fits no parameter."""


SAMPLES: dict[str, Any] = {
    "str": "a text",
    "int": 5,
    "float": 2.5,
    "bool": True,
    "bytes": b"bytes",
    "Mapping": {"a": 1},
    "list": ["a", 1],
    "None": None,
    "odd": Odd(),
}
ALSO: dict[str, tuple[str, ...]] = {
    "Literal": ("str",),
    "RequestContext": ("Mapping",),
    "dict": ("Mapping",),
    "Sequence": ("list",),
    "Iterable": ("list",),
    "float": ("int",),
    "Category": ("str",),
    "Policy": ("str",),
    "Role": ("str",),
    "AgentInput": ("str",),
    "McpEntry": ("Mapping",),
    "NotificationInput": ("Mapping",),
    "Optional": ("None",),
}
"""Words of an annotation, and the samples that they let in besides those of their own name."""
NOT_CALLED = {"init", "destroy", "sync"}
PLACES = (
    "",
    "session",
    "memory",
    "mcp",
    *(
        f"session.{name}"
        for name in ("identity", "thread", "mode", "model", "om.observer", "om.reflector", "subagents.model")
    ),
    *(
        f"session.{name}"
        for name in ("state", "permissions", "goals", "approval", "suspensions", "follow_ups", "run", "log")
    ),
    *(f"session.{name}" for name in ("stream", "display_state")),
)


def part(harness: Harness[Any], place: str) -> Any:
    found: Any = harness
    for name in filter(None, place.split(".")):
        found = getattr(found, name)
    return found


def methods(harness: Harness[Any], place: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    one = part(harness, place)
    for name in [*dir(one), "__call__"]:
        method = getattr(one, name, None)
        if name not in NOT_CALLED and inspect.ismethod(method) and len(inspect.signature(method).parameters):
            yield name, method


def wrong_values(annotation: str) -> Iterator[Any]:
    let_in = {name for name in SAMPLES if name in annotation}
    for word, names in ALSO.items():
        let_in |= set(names) if word in annotation else set()
    if "Any" in annotation.replace("Any]", "") or annotation.startswith(("type[Value]", "Transaction")):
        let_in = set(SAMPLES) - {"odd"} if annotation != "Any" else set(SAMPLES)
    return (value for name, value in SAMPLES.items() if name not in let_in)


def calls(harness: Harness[Any], place: str) -> Iterator[tuple[str, str, Any, Callable[[], Any]]]:
    """Each with one wrong argument, which comes first: the method, the parameter, the value, and the call."""
    for name, method in methods(harness, place):
        parameters = {
            key: one
            for key, one in inspect.signature(method).parameters.items()
            if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        }
        needed = {key: "a" for key, one in parameters.items() if one.default is one.empty}
        for key, parameter in parameters.items():
            for value in wrong_values(str(parameter.annotation)):
                yield (
                    name,
                    key,
                    value,
                    partial(
                        method, **{key: value, **{one: given for one, given in needed.items() if one != key}}
                    ),
                )


@pytest.mark.parametrize("place", PLACES)
def test_a_value_of_a_wrong_type_is_named(place: str) -> None:
    async def main() -> None:
        async with opened(Model("Hi."), memory=Memory()) as (harness, _):
            await harness.create_thread()
            tried, problems = 0, []
            for method, parameter, value, use in calls(harness, place):
                tried += 1
                said = await outcome_of(use)
                if not said.startswith(f"{parameter} cannot be "):
                    problems.append(f"{method}({parameter}={value!r}): {said}")
            assert problems == []
            assert tried or place in ("session.display_state", "session.om.observer")
            assert (await harness.send_message(content="Still there?")).success

    run(main)


async def outcome_of(use: Callable[[], Any]) -> str:
    try:
        made = use()
        if inspect.isawaitable(made):
            made = await asyncio.wait_for(made, 5)
    except UsageError as error:
        return str(error)
    except Exception as error:
        return f"raised {error!r}"
    return f"gave {made!r}"
