"""Several models answer: which one, the name says that the program asks for."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from harness.gateway.call import Answerer, GatewayCall
from harness.gateway.reply import Reply


class RoutedModels:
    """Contract: that of `Answerer`."""

    def __init__(self, routes: Sequence[tuple[str, Answerer]], usual: Answerer) -> None:
        """`routes`: patterns, the first that fits counts; `usual` answers what fits none."""
        self._routes = routes
        self._usual = usual

    def answer(self, call: GatewayCall, reply: Reply) -> None:
        fitting = (answerer for pattern, answerer in self._routes if fnmatchcase(call.model, pattern))
        next(fitting, self._usual).answer(call, reply)
