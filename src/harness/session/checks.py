"""Checks of the arguments of `Harness`: a wrong one is reported at once, not at the first message."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Struct

from harness.contracts.request import GatewayOptions, Limits
from harness.errors import UsageError
from harness.session.config import (
    BackingAgent,
    CommandAgent,
    HeartbeatHandler,
    MemoryDefaults,
    Mode,
    RequestContext,
    Subagent,
    ToolsInput,
    tools_of,
)
from harness.session.memory.config import Memory
from harness.session.workspaces import WorkspaceConfig


class _Kind(NamedTuple):
    fits: Callable[[Any], bool]
    words: str


def _has(*methods: str) -> Callable[[Any], bool]:
    return lambda value: (
        not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)
    )


def _either(*fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(fit(value) for fit in fits)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _none(value: Any) -> bool:
    return value is None


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _is_list(value) and all(map(fits, value))


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _factory(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


def _called_at_once(value: Any) -> bool:
    """A plain function: its result is not awaited."""
    return callable(value) and not inspect.iscoroutinefunction(value)


def _servers(value: Any) -> bool:
    """The entries themselves are checked when they are read."""
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


_agent = _is(str, BackingAgent, CommandAgent)
_workspace = _either(
    _is(WorkspaceConfig),
    _has("init", "tools", "destroy"),
    lambda value: callable(value) and not _is(type)(value),
)
_WHO = "the name of an agent, a BackingAgent or a CommandAgent"

_ARGUMENTS: dict[str, _Kind] = {
    "id": _Kind(lambda value: isinstance(value, str) and bool(value), "a text that is not empty"),
    "modes": _Kind(_list_of(_is(Mode)), "a list of Mode"),
    "resource_id": _Kind(_is(str), "a text"),
    "storage": _Kind(
        _either(_none, _has("create", "open", "reader", "find")), 'a store, such as FileStore("./data")'
    ),
    "initial_state": _Kind(_either(_none, _is(Mapping)), "a mapping from names to values"),
    "memory": _Kind(_either(_none, _is(Memory), _factory), "Memory(…), or a function that makes one"),
    "agent": _Kind(_either(_none, _agent), _WHO),
    "default_mode_id": _Kind(_is(str), "the id of a mode"),
    "instructions": _Kind(_is(str), "a text"),
    "mcp_servers": _Kind(
        _either(_is(str, os.PathLike), _list_of(_is(str, os.PathLike)), _servers),
        "a mapping from names to McpServer or entries of an mcp.json, or paths of such files",
    ),
    "workspace": _Kind(
        _either(_none, _workspace), "a WorkspaceConfig, a workspace, or a function that makes one"
    ),
    "browser": _Kind(
        _either(_none, _has("tools", "close"), _factory), "a browser, or a function that makes one"
    ),
    "heartbeat_handlers": _Kind(_list_of(_is(HeartbeatHandler)), "a list of HeartbeatHandler"),
    "id_generator": _Kind(_either(_none, _called_at_once), "a function that is not async"),
    "model_auth_checker": _Kind(_either(_none, callable), "a function"),
    "model_use_count_provider": _Kind(_either(_none, callable), "a function"),
    "model_use_count_tracker": _Kind(_either(_none, callable), "a function"),
    "custom_model_catalog_provider": _Kind(_either(_none, callable), "a function"),
    "subagents": _Kind(_list_of(_is(Subagent)), "a list of Subagent"),
    "gateways": _Kind(_list_of(_has("should_enable", "models", "resolve")), "a list of gateways"),
    "gateway": _Kind(_either(_none, _is(GatewayOptions)), "GatewayOptions(…), or None"),
    "resolve_model": _Kind(
        _either(_none, _called_at_once), "a function from the id of a model to the model, not async"
    ),
    "om_config": _Kind(_either(_none, _is(MemoryDefaults)), "MemoryDefaults(…)"),
    "disable_builtin_tools": _Kind(_list_of(_is(str)), "a list of names"),
    "pubsub": _Kind(_either(_none, _has("publish", "subscribe")), "something with publish and subscribe"),
    "thread_lock": _Kind(_either(_none, _has("acquire", "release")), "something with acquire and release"),
    "observability": _Kind(_either(_none, _has("start_span")), "something with start_span"),
    "cwd": _Kind(_is(str, os.PathLike), "the path of a directory"),
    "redact": _Kind(_is(bool), "True or False"),
    "environ": _Kind(_either(_none, _is(Mapping)), "a mapping from names to values"),
}


_LISTS = ("modes", "subagents", "gateways", "heartbeat_handlers", "disable_builtin_tools")


def checked(given: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Check the arguments of `Harness`; returns its list arguments by name, as tuples.

    Raises UsageError for the first wrong argument.
    """
    lists = {name: tuple(given[name]) for name in _LISTS if _is_list(given[name])}
    _check_arguments({**given, **lists})
    return lists


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    for name, kind in _ARGUMENTS.items():
        if name in arguments:
            _check(name, arguments[name], kind)
    check_tools("tools", arguments["tools"])
    for mode in arguments["modes"]:
        _check_mode(mode)
    for subagent in arguments["subagents"]:
        where = _fields(subagent)
        check_tools(f"{where} tools", subagent.tools)
        _check(f"{where} stop_when", subagent.stop_when, _Kind(_either(_none, callable), "a function"))
    for handler in arguments["heartbeat_handlers"]:
        where = _fields(handler)
        _check(f"{where} handler", handler.handler, _Kind(callable, "a function"))
        _check(f"{where} interval_ms", handler.interval_ms, _Kind(lambda ms: ms > 0, "more than 0"))
    for given in (arguments["agent"], arguments["om_config"]):
        _check_described(given)


def check_text(name: str, value: Any) -> None:
    """Raises UsageError unless it is a string."""
    _check(name, value, _Kind(_is(str), "a text"))


def check_listener(listener: Any) -> None:
    """Raises UsageError unless it can be called with an event."""
    _check("listener", listener, _Kind(callable, "a function of one event"))


def another_loop() -> UsageError:
    """What is said where a harness is used in two event loops."""
    return UsageError(
        "this harness lives in another event loop",
        hint="use it within one asyncio.run(), or without one: with harness.sync() as app",
    )


def check_context(context: Any) -> None:
    """Raises UsageError for a request context that is no mapping."""
    _check("request_context", context, _Kind(_either(_none, _is(Mapping)), "a RequestContext, or a mapping"))


def checked_limits(limits: Limits | None) -> Limits | None:
    """The limits as given. Raises UsageError for a wrong type, and for values that are not above 0."""
    if limits is None:
        return None
    _check("limits", limits, _Kind(_is(Limits), "Limits(max_turns=…, max_budget_usd=…, timeout_s=…)"))
    if limits.at_limit not in (None, "end", "ask", "summarise"):
        raise _wrong("limits: at_limit", limits.at_limit, "end, ask, summarise or None")
    for name in (field for field in Limits.__struct_fields__ if field != "at_limit"):
        number = _Kind(_positive, "a number above 0, or None")
        _check(f"limits: {name}", getattr(limits, name), number)
    return limits


def _positive(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0)


def check_tools(name: str, given: ToolsInput | None) -> None:
    """Raises UsageError for what cannot be tools. A function is not called here."""
    if given is None or (callable(given) and not isinstance(given, Sequence | Mapping)):
        return
    many = isinstance(given, Mapping) or (isinstance(given, Iterable) and not isinstance(given, str | bytes))
    _check(name, given, _Kind(lambda _: many, "a list of tools or functions, a mapping, or a function"))
    named = given.items() if isinstance(given, Mapping) else enumerate(given)
    for place, one in named:
        if not callable(one) and not _has("run")(one):
            raise _wrong(f"{name}[{place!r}]", one, "a tool or a typed function")
    try:
        tools_of(given, RequestContext())
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(
            f"{name}: not all of them can be tools: {error}", hint="give each parameter a type"
        ) from error


def _check_mode(mode: Mode) -> None:
    where = _fields(mode)
    _check(f"{where} agent", mode.agent, _Kind(_either(_none, _agent), _WHO))
    _check(f"{where} metadata", mode.metadata, _Kind(_is(Mapping), "a mapping"))
    names = _Kind(_either(_none, _list_of(_is(str))), "a list of names")
    _check(f"{where} available_tools", mode.available_tools, names)
    _check(f"{where} mcp_servers", mode.mcp_servers, names)
    check_tools(f"{where} tools", mode.tools)
    check_tools(f"{where} additional_tools", mode.additional_tools)
    _check_described(mode.agent)


def _check_described(given: Any) -> None:
    if isinstance(given, Struct):
        where = _fields(given)
        if isinstance(given, BackingAgent):
            check_tools(f"{where} tools", given.tools)


def _fields(given: Struct) -> str:
    """Check the fields of simple types; returns the name of the object for error messages."""
    name = getattr(given, "id", None) or getattr(given, "name", None)
    where = f"{type(given).__name__} {name!r}:" if name else f"{type(given).__name__}:"
    for field, kind in _simple_fields(type(given)).items():
        _check(f"{where} {field}", getattr(given, field), kind)
    if hasattr(given, "id") and not given.id:
        raise UsageError(f"{where} its id is empty", hint="give it a name of its own")
    return where


@cache
def _simple_fields(kind: type[Struct]) -> dict[str, _Kind]:
    known: dict[Any, _Kind] = {
        str: _Kind(_is(str), "a text"),
        bool: _Kind(_is(bool), "True or False"),
        int: _Kind(_whole, "a whole number"),
        int | None: _Kind(_either(_none, _whole), "a whole number, or None"),
        tuple[str, ...]: _Kind(_list_of(_is(str)), "a list of texts"),
    }
    hints = get_type_hints(kind)
    for hint in hints.values():
        if get_origin(hint) is Literal:
            known[hint] = _Kind(get_args(hint).__contains__, f"one of {', '.join(get_args(hint))}")
    return {
        name: known[hints[name]]
        for name in kind.__struct_fields__
        if _hashable(hints[name]) and hints[name] in known
    }


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _check(name: str, value: Any, kind: _Kind) -> None:
    if not kind.fits(value):
        raise _wrong(name, value, kind.words)


def _wrong(name: str, value: Any, wanted: str) -> UsageError:
    given = list(value) if isinstance(value, tuple) else value
    shown = f"{given!r:.80}" if isinstance(given, str | int | float | list) else f"a {type(value).__name__}"
    return UsageError(f"{name} cannot be {shown}", hint=f"give {wanted}")
