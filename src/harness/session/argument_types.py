"""Which values fit the type of a parameter, as far as that can be seen without reading them, and what to say otherwise."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, is_typeddict

from harness.errors import UsageError


class ArgumentKind(NamedTuple):
    """What a parameter takes."""

    fits: Callable[[Any], bool]
    words: str
    """As in "give a text"."""


def is_whole(value: Any) -> bool:
    """True is a number for Python, and a mistake here."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_list(value: Any) -> bool:
    """Something to go through, and no text."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def has(*methods: str) -> Callable[[Any], bool]:
    """Whether an object, and no class, has these methods."""
    return lambda value: (
        not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)
    )


_FUNCTION: Any = Callable
_SIMPLE: dict[Any, ArgumentKind] = {
    str: ArgumentKind(lambda value: isinstance(value, str), "a text"),
    bool: ArgumentKind(lambda value: isinstance(value, bool), "True or False"),
    int: ArgumentKind(is_whole, "a whole number"),
    float: ArgumentKind(lambda value: is_whole(value) or isinstance(value, float), "a number"),
    NoneType: ArgumentKind(lambda value: value is None, "None"),
}


def kind_of(hint: Any) -> ArgumentKind | None:
    """None: anything may fit."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _either([kind_of(argument) for argument in arguments])
    if origin is Literal:
        return ArgumentKind(
            lambda value: _is_one_of(value, arguments), f"one of {', '.join(map(str, arguments))}"
        )
    if origin is type:
        return ArgumentKind(lambda value: isinstance(value, type) or get_origin(value) is not None, "a type")
    kind = hint if origin is None else origin
    return _of_class(kind, arguments) if isinstance(kind, type) else None


def _of_class(kind: type, arguments: tuple[Any, ...]) -> ArgumentKind | None:
    if kind in (object, Any):  # which is a class
        return None
    if kind is Awaitable:
        return ArgumentKind(inspect.isawaitable, "what an async method returns")
    if issubclass(kind, Mapping) or is_typeddict(kind):
        return ArgumentKind(lambda value: isinstance(value, Mapping), "a mapping")
    if kind is _FUNCTION:
        return ArgumentKind(lambda value: callable(value) and not isinstance(value, type), "a function")
    if issubclass(kind, Iterable) and arguments:
        return _list_of(kind_of(arguments[0]))
    if getattr(kind, "_is_protocol", False):
        methods = [
            name for name, method in vars(kind).items() if not name.startswith("_") and callable(method)
        ]
        return ArgumentKind(has(*methods), f"a {kind.__name__}: something with {' and '.join(methods)}")
    return ArgumentKind(lambda value: isinstance(value, kind), f"a {kind.__name__}")


def _list_of(item_kind: ArgumentKind | None) -> ArgumentKind:
    """What can be gone through only once is not looked into."""
    if item_kind is None:
        return ArgumentKind(is_list, "a list")
    return ArgumentKind(
        lambda value: is_list(value) and (not isinstance(value, Sequence) or all(map(item_kind.fits, value))),
        f"a list, each {item_kind.words}",
    )


def _either(kinds: Sequence[ArgumentKind | None]) -> ArgumentKind | None:
    some = [kind for kind in kinds if kind is not None]
    if len(some) < len(kinds):
        return None
    words = list(dict.fromkeys(kind.words for kind in some))
    return ArgumentKind(lambda value: any(kind.fits(value) for kind in some), ", or ".join(words))


def _is_one_of(value: Any, allowed: tuple[Any, ...]) -> bool:
    return any(type(value) is type(choice) and value == choice for choice in allowed)


def kinds_of(method: Callable[..., Any]) -> dict[str, ArgumentKind]:
    """By name: what the parameters take. A type that is not imported where it stands is not checked."""
    kinds: dict[str, ArgumentKind] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        try:
            hint = _hint(parameter.annotation, method)
        except NameError:
            continue
        if (kind := kind_of(hint)) is not None:
            kinds[name] = kind
    return kinds


def _hint(annotation: Any, method: Callable[..., Any]) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    return eval(annotation, getattr(method, "__globals__", {}))  # noqa: S307 - it is our own source


def wrong(name: str, value: Any, words: str) -> UsageError:
    """What is said of an argument; `words` as those of an `ArgumentKind`."""
    bare = list(value) if isinstance(value, tuple) else value
    text = f"{bare!r:.80}" if isinstance(bare, str | int | float | list) else f"a {type(value).__name__}"
    return UsageError(f"{name} cannot be {text}", hint=f"give {words}")
