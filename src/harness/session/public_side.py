"""The public side of a session and its parts: what a REPL completes, and arguments that are checked.

The other attributes are for the parts among themselves. They work, may change without notice, and check nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType
from typing import Any, TypeVar

from harness.session.argument_types import ArgumentKind, kinds_of, wrong

Part = TypeVar("Part")
_CALLED = "__call__"


def public(*inside: str) -> Callable[[type[Part]], type[Part]]:
    """A class whose objects complete in `dir()` what programs are meant to call, and name arguments of a wrong type.

    `inside`: names that are neither completed nor checked, as those with an underscore.
    """

    def finish(part: type[Part]) -> type[Part]:
        def directory(self: Part) -> list[str]:
            all_names = object.__dir__(self)
            return sorted(name for name in all_names if not name.startswith("_") and name not in inside)

        part.__dir__ = directory  # type: ignore[assignment, method-assign]
        for name, method in list(vars(part).items()):
            is_public = name == _CALLED or not (name.startswith("_") or name in inside)
            if is_public and isinstance(method, FunctionType) and len(_names(method)) > 1:
                setattr(part, name, _checked(method))
        return part

    return finish


def _names(method: Callable[..., Any]) -> tuple[str, ...]:
    code = method.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same method; what it is called with is looked at first. Raises UsageError for a wrong argument."""
    names = _names(method)[1:]

    @cache
    def kinds() -> dict[str, ArgumentKind]:
        return kinds_of(method)  # when it is first called: its types are imported by then

    def check(positionals: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        by_name = kinds()
        for name, value in (*zip(names, positionals, strict=False), *keywords.items()):
            kind = by_name.get(name)
            if kind is not None and not kind.fits(value):
                raise wrong(name, value, kind.words)

    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def waiting(self: Any, *positionals: Any, **keywords: Any) -> Any:
            check(positionals, keywords)
            return await method(self, *positionals, **keywords)

        return waiting

    @wraps(method)
    def checked(self: Any, *positionals: Any, **keywords: Any) -> Any:
        check(positionals, keywords)
        return method(self, *positionals, **keywords)

    return checked
