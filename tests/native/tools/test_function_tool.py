"""Any typed function is a tool: its schema, its arguments, its errors, its result."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any, Literal

import msgspec
import pytest

from harness.contracts.tool import ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.errors import UsageError
from harness.events.operation import Read
from harness.native.tools.function_tool import FunctionTool, output_of, tool


class Point(msgspec.Struct):
    x: int
    y: int = 0


@tool
def count(
    path: str,
    kind: Literal["lines", "words"] = "lines",
    at: Point | None = None,
    tags: list[str] = [],  # noqa: B006  # copied for every call
    limit: Annotated[int, msgspec.Meta(ge=1, description="At most so many.")] = 10,
) -> str:
    """Count what is in a file.

    Only text files can be counted.
    """
    tags.append("seen")
    return f"{path} {kind} {at} {tags} {limit}"


def run(one: FunctionTool, **arguments: Any) -> ToolOutput:
    return asyncio.run(one.run(arguments, ToolContext(cwd="/")))


def test_the_schema_comes_from_the_signature() -> None:
    schema = count.spec.schema
    assert count.spec.name == "count"
    assert count.spec.description.startswith("Count what is in a file.\n\nOnly text")
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["path"], False)
    assert schema["properties"]["path"] == {"type": "string"}
    assert schema["properties"]["kind"]["enum"] == ["lines", "words"]
    assert schema["properties"]["limit"]["description"] == "At most so many."
    assert list(schema["$defs"]) == ["Point"]


def test_arguments_are_checked_and_converted() -> None:
    assert run(count, path="a", limit="5", at={"x": 1}).text == "a lines Point(x=1, y=0) ['seen'] 5"
    assert run(count, path="a").text == "a lines None ['seen'] 10"
    assert run(count, path="a").text == "a lines None ['seen'] 10"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "missing required field `path`"),
        ({"path": 1}, "Expected `str`, got `int` - at `$.path`"),
        ({"path": "a", "limit": 0}, "Expected `int` >= 1 - at `$.limit`"),
        ({"path": "a", "colour": "red"}, "unknown field `colour`"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ToolFailure) as failure:
        run(count, **arguments)
    assert complaint in str(failure.value)
    assert str(failure.value).endswith("(arguments: path, kind?, at?, tags?, limit?)")


def test_it_is_still_the_function_it_was() -> None:
    assert count("a", limit=3) == "a lines None ['seen'] 3"


def test_names_operations_and_permission_can_be_declared() -> None:
    @tool(
        name="look",
        description="Look.",
        operations=lambda arguments: [Read(path=arguments["path"])],
        permission=lambda arguments: ToolPermission("look", {"path": "/tmp/*"}),
    )
    def read_it(path: str) -> str:
        return path

    assert (read_it.spec.name, read_it.spec.description) == ("look", "Look.")
    assert read_it.operations({"path": "x"}) == [Read(path="x")]
    assert read_it.permission({}) == ToolPermission("look", {"path": "/tmp/*"})
    assert count.permission({"path": "a b"}) == ToolPermission("count", {"path": "a **"}, closed=True)
    assert count.operations({}) == ()


def test_the_context_is_given_and_hidden_from_the_model() -> None:
    @tool
    async def where(context: ToolContext, deep: bool = False) -> str:
        return context.cwd

    assert list(where.spec.schema["properties"]) == ["deep"]
    assert run(where).text == "/"


def test_a_plain_function_runs_in_a_thread_unless_it_is_quick() -> None:
    def name() -> str:
        return threading.current_thread().name

    assert run(tool(name)).text == "tool"
    assert run(tool(quick=True)(name)).text == "MainThread"


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration("x"), SystemExit(2)])
def test_what_a_function_raises_comes_through(error: BaseException) -> None:
    @tool
    def broken() -> None:
        raise error

    with pytest.raises((ValueError, RuntimeError, SystemExit)):
        run(broken)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (None, "done"),
        ({"a": [1, 2.5, True]}, '{"a":[1,2.5,true]}'),
        (Point(1, 2), '{"x":1,"y":2}'),
        (ToolOutput(text="own", exit_code=3), "own"),
    ],
)
def test_whatever_is_returned_becomes_text(value: Any, text: str) -> None:
    assert output_of(value).text == text


def test_what_json_does_not_know_is_spelled_out() -> None:
    assert output_of(threading).text.startswith("<module 'threading'")
    assert output_of({"a": 1}).result == {"a": 1}


def test_functions_that_cannot_be_described_are_refused_with_words() -> None:
    def anything(*values: int) -> None: ...

    def unknown(value: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def odd(value: threading.Thread) -> None: ...

    for function in (anything, unknown, odd):
        with pytest.raises(UsageError, match=f"tool {function.__name__}: "):
            tool(function)


def test_an_argument_without_a_type_may_be_anything() -> None:
    @tool(quick=True)
    def free(value) -> str:  # type: ignore[no-untyped-def]
        return repr(value)

    assert run(free, value=[1]).text == "[1]"


def test_a_tool_alone_cannot_start_sub_agents() -> None:
    @tool
    async def delegate(context: ToolContext) -> str:
        context.progress("nobody hears this")
        return await context.spawn("x")

    with pytest.raises(ToolFailure, match="cannot be started here"):
        run(delegate)
