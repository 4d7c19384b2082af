"""Any typed Python function is a tool.

    @tool(operations=lambda arguments: [Read(path=arguments["path"])])
    def count_lines(path: str, skip_empty: bool = False) -> int:
        "Count the lines of a file."

The schema comes from the signature, the description from the docstring; `Annotated[str,
msgspec.Meta(description="…")]` describes one argument. Arguments are validated before the function is
called. A parameter of type `ToolContext` receives the context of the call, and is hidden from the model.
A plain function runs in its own thread, so that it does not block the event loop, unless it is `quick`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, get_type_hints, overload

import msgspec

from harness.contracts.model import ToolSpec
from harness.contracts.tool import (
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
    ToolPermission,
    derived_permission,
)
from harness.errors import UsageError
from harness.events import Operation

_Function: TypeAlias = Callable[..., Any]
Operations: TypeAlias = Callable[[dict[str, Any]], Sequence[Operation]] | Sequence[Operation]

_DESCRIBABLE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class FunctionTool(Tool):
    """A `Tool` that is still callable as the function it was."""

    def __init__(
        self,
        function: _Function,
        *,
        name: str = "",
        description: str = "",
        operations: Operations = (),
        permission: Callable[[dict[str, Any]], ToolPermission] | None = None,
        quick: bool = False,
    ) -> None:
        self.function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self.is_quick: bool = quick and not self._is_async
        """It runs in the event loop, and is done when it returns."""
        self._operations = operations
        self._permission = permission
        name = name or function.__name__
        self._arguments, self._context_name = _arguments_of(function, name)
        self.spec: ToolSpec = ToolSpec(
            name=name,
            description=description or inspect.getdoc(function) or "",
            schema=_schema(self._arguments),
        )
        self.__name__ = name
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return self._operations(arguments) if callable(self._operations) else self._operations

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        if self._permission is not None:
            return self._permission(arguments)
        return derived_permission(self.spec.name, arguments)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        try:
            checked = msgspec.convert(arguments, self._arguments, strict=False)
        except msgspec.ValidationError as error:
            raise ToolFailure(f"invalid arguments for {self.spec.name}: {error}{self._expected()}") from None
        values = {field: getattr(checked, field) for field in self._arguments.__struct_fields__}
        if self._context_name:
            values[self._context_name] = context
        if self._is_async:
            return output_of(await self.function(**values))
        if self.is_quick:
            return output_of(self.function(**values))
        return output_of(await _in_thread(lambda: self.function(**values)))

    def _expected(self) -> str:
        schema = self.spec.schema
        required = set(schema.get("required", ()))
        names = [name if name in required else f"{name}?" for name in schema.get("properties", {})]
        return f" (arguments: {', '.join(names) or 'none'})"


@overload
def tool(function: _Function, /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    operations: Operations = (),
    permission: Callable[[dict[str, Any]], ToolPermission] | None = None,
    quick: bool = False,
) -> Callable[[_Function], FunctionTool]: ...


def tool(
    function: _Function | None = None, /, **options: Any
) -> FunctionTool | Callable[[_Function], FunctionTool]:
    """Make a tool of a function. Raises UsageError if its arguments cannot be described."""
    if function is not None:
        return FunctionTool(function)
    return lambda decorated: FunctionTool(decorated, **options)


def is_quick(tool: Tool) -> bool:
    """Whether a call of this tool never waits for anything."""
    return getattr(tool, "is_quick", False) is True


def output_of(value: Any) -> ToolOutput:
    """Convert a return value to an output: text unchanged, anything else as JSON."""
    if isinstance(value, ToolOutput):
        return value
    if isinstance(value, str):
        return ToolOutput(text=value)
    if value is None:
        return ToolOutput(text="done")
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = str(value)
    return ToolOutput(text=text, result=value)


def _arguments_of(function: _Function, name: str) -> tuple[type[msgspec.Struct], str]:
    """A struct of the function's parameters, and the name of the parameter for the context."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise UsageError(
            f"tool {name}: its annotations cannot be read: {error}",
            hint="use types that can be seen from the function's module",
        ) from error
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    context_name = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in _DESCRIBABLE:
            raise UsageError(
                f"tool {name}: parameter {parameter} cannot be described to a model",
                hint="give every argument a name of its own",
            )
        hint = hints.get(parameter.name, Any)
        if hint is ToolContext:
            context_name = parameter.name
        elif parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, _default(parameter.default)))
    try:
        struct = msgspec.defstruct(name or "arguments", fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.schema(struct)
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(
            f"tool {name}: its arguments cannot be described: {error}",
            hint="annotate them with types that JSON knows",
        ) from error
    return struct, context_name


def _default(value: Any) -> Any:
    """Mutable defaults are copied for every call, so that calls do not share them."""
    if isinstance(value, list | dict | set | bytearray):
        return msgspec.field(default_factory=value.copy)
    return value


def _schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """JSON Schema of the arguments, with the outermost reference resolved: not all models follow it."""
    schema = msgspec.json.schema(struct)
    definitions = dict(schema.get("$defs", {}))
    top = dict(definitions.pop(schema["$ref"].rpartition("/")[2]))
    del top["title"]
    return {**top, "$defs": definitions} if definitions else top


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Call it in a daemon thread: after a cancellation it is abandoned, and does not block the exit."""
    import asyncio
    import threading

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as raised:  # noqa: BLE001 # it is raised again in the task that waits
            # A future does not accept this exception.
            error = RuntimeError("StopIteration") if isinstance(raised, StopIteration) else raised
        with suppress(RuntimeError):  # the loop is closed: no task waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name="tool", daemon=True).start()
    return await future
