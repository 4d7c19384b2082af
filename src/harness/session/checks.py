"""Checks of the arguments of `Harness`: a wrong one is reported at once, not at the first message."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct

from harness.contracts.request import GatewayOptions, Limits
from harness.errors import UsageError
from harness.session.argument_types import ArgumentKind, has, is_list, is_whole, wrong
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


def _either(*fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(fit(value) for fit in fits)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _none(value: Any) -> bool:
    return value is None


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: is_list(value) and all(map(fits, value))


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
    has("init", "tools", "destroy"),
    lambda value: callable(value) and not _is(type)(value),
)
_WHO = "the name of an agent, a BackingAgent or a CommandAgent"

_ARGUMENTS: dict[str, ArgumentKind] = {
    "id": ArgumentKind(lambda value: isinstance(value, str) and bool(value), "a text that is not empty"),
    "modes": ArgumentKind(_list_of(_is(Mode)), "a list of Mode"),
    "resource_id": ArgumentKind(_is(str), "a text"),
    "storage": ArgumentKind(
        _either(_none, has("create", "open", "reader", "find")), 'a store, such as FileStore("./data")'
    ),
    "initial_state": ArgumentKind(_either(_none, _is(Mapping)), "a mapping from names to values"),
    "memory": ArgumentKind(_either(_none, _is(Memory), _factory), "Memory(…), or a function that makes one"),
    "agent": ArgumentKind(_either(_none, _agent), _WHO),
    "default_mode_id": ArgumentKind(_is(str), "the id of a mode"),
    "instructions": ArgumentKind(_is(str), "a text"),
    "mcp_servers": ArgumentKind(
        _either(_is(str, os.PathLike), _list_of(_is(str, os.PathLike)), _servers),
        "a mapping from names to McpServer or entries of an mcp.json, or paths of such files",
    ),
    "workspace": ArgumentKind(
        _either(_none, _workspace), "a WorkspaceConfig, a workspace, or a function that makes one"
    ),
    "browser": ArgumentKind(
        _either(_none, has("tools", "close"), _factory), "a browser, or a function that makes one"
    ),
    "heartbeat_handlers": ArgumentKind(_list_of(_is(HeartbeatHandler)), "a list of HeartbeatHandler"),
    "id_generator": ArgumentKind(_either(_none, _called_at_once), "a function that is not async"),
    "model_auth_checker": ArgumentKind(_either(_none, callable), "a function"),
    "model_use_count_provider": ArgumentKind(_either(_none, callable), "a function"),
    "model_use_count_tracker": ArgumentKind(_either(_none, callable), "a function"),
    "custom_model_catalog_provider": ArgumentKind(_either(_none, callable), "a function"),
    "subagents": ArgumentKind(_list_of(_is(Subagent)), "a list of Subagent"),
    "gateways": ArgumentKind(_list_of(has("should_enable", "models", "resolve")), "a list of gateways"),
    "gateway": ArgumentKind(_either(_none, _is(GatewayOptions)), "GatewayOptions(…), or None"),
    "resolve_model": ArgumentKind(
        _either(_none, _called_at_once), "a function from the id of a model to the model, not async"
    ),
    "om_config": ArgumentKind(_either(_none, _is(MemoryDefaults)), "MemoryDefaults(…)"),
    "disable_builtin_tools": ArgumentKind(_list_of(_is(str)), "a list of names"),
    "pubsub": ArgumentKind(
        _either(_none, has("publish", "subscribe")), "something with publish and subscribe"
    ),
    "thread_lock": ArgumentKind(
        _either(_none, has("acquire", "release")), "something with acquire and release"
    ),
    "observability": ArgumentKind(_either(_none, has("start_span")), "something with start_span"),
    "cwd": ArgumentKind(_is(str, os.PathLike), "the path of a directory"),
    "redact": ArgumentKind(_is(bool), "True or False"),
    "environ": ArgumentKind(_either(_none, _is(Mapping)), "a mapping from names to values"),
}


_LISTS = ("modes", "subagents", "gateways", "heartbeat_handlers", "disable_builtin_tools")


def checked(given: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Check the arguments of `Harness`; returns its list arguments by name, as tuples.

    Raises UsageError for the first wrong argument.
    """
    lists = {name: tuple(given[name]) for name in _LISTS if is_list(given[name])}
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
        _check(f"{where} stop_when", subagent.stop_when, ArgumentKind(_either(_none, callable), "a function"))
    for handler in arguments["heartbeat_handlers"]:
        where = _fields(handler)
        _check(f"{where} handler", handler.handler, ArgumentKind(callable, "a function"))
        _check(f"{where} interval_ms", handler.interval_ms, ArgumentKind(lambda ms: ms > 0, "more than 0"))
    for given in (arguments["agent"], arguments["om_config"]):
        _check_described(given)


def check_listener(listener: Any) -> None:
    """Raises UsageError unless it can be called with an event."""
    _check("listener", listener, ArgumentKind(callable, "a function of one event"))


def another_loop() -> UsageError:
    """What is said where a harness is used in two event loops."""
    return UsageError(
        "this harness lives in another event loop",
        hint="use it within one asyncio.run(), or without one: with harness.sync() as app",
    )


def checked_limits(limits: Limits | None) -> Limits | None:
    """The limits as given. Raises UsageError for a wrong type, and for values that are not above 0."""
    if limits is None:
        return None
    _check("limits", limits, ArgumentKind(_is(Limits), "Limits(max_turns=…, max_budget_usd=…, timeout_s=…)"))
    if limits.at_limit not in (None, "end", "ask", "summarise"):
        raise wrong("limits: at_limit", limits.at_limit, "end, ask, summarise or None")
    for name in (field for field in Limits.__struct_fields__ if field != "at_limit"):
        kind = _COUNT if name in ("max_turns", "max_tokens") else _AMOUNT
        _check(f"limits: {name}", getattr(limits, name), kind)
    return limits


def _positive(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0)


_AMOUNT = ArgumentKind(_positive, "a number above 0, or None")
_COUNT = ArgumentKind(
    lambda value: value is None or (is_whole(value) and value > 0), "a whole number above 0, or None"
)


def check_tools(name: str, given: ToolsInput | None) -> None:
    """Raises UsageError for what cannot be tools. A function is not called here."""
    if given is None or (callable(given) and not isinstance(given, Sequence | Mapping)):
        return
    many = isinstance(given, Mapping) or (isinstance(given, Iterable) and not isinstance(given, str | bytes))
    _check(
        name, given, ArgumentKind(lambda _: many, "a list of tools or functions, a mapping, or a function")
    )
    named = given.items() if isinstance(given, Mapping) else enumerate(given)
    for place, value in named:
        if not callable(value) and not has("run")(value):
            raise wrong(f"{name}[{place!r}]", value, "a tool or a typed function")
    try:
        tools_of(given, RequestContext())
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(
            f"{name}: not all of them can be tools: {error}", hint="give each parameter a type"
        ) from error


def _check_mode(mode: Mode) -> None:
    where = _fields(mode)
    _check(f"{where} agent", mode.agent, ArgumentKind(_either(_none, _agent), _WHO))
    _check(f"{where} metadata", mode.metadata, ArgumentKind(_is(Mapping), "a mapping"))
    names = ArgumentKind(_either(_none, _list_of(_is(str))), "a list of names")
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
def _simple_fields(kind: type[Struct]) -> dict[str, ArgumentKind]:
    known: dict[Any, ArgumentKind] = {
        str: ArgumentKind(_is(str), "a text"),
        bool: ArgumentKind(_is(bool), "True or False"),
        int: ArgumentKind(is_whole, "a whole number"),
        int | None: ArgumentKind(_either(_none, is_whole), "a whole number, or None"),
        Sequence[str]: ArgumentKind(_list_of(_is(str)), "a list of texts"),
    }
    hints = get_type_hints(kind)
    for hint in hints.values():
        if get_origin(hint) is Literal:
            known[hint] = ArgumentKind(get_args(hint).__contains__, f"one of {', '.join(get_args(hint))}")
    return {
        name: known[hints[name]]
        for name in kind.__struct_fields__
        if _hashable(hints[name]) and hints[name] in known
    }


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _check(name: str, value: Any, kind: ArgumentKind) -> None:
    if not kind.fits(value):
        raise wrong(name, value, kind.words)
