"""Who decides what a run may do: the allowlists of `permissions`, or somebody who steers several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from harness.events import Operation
from harness.sources.loop.permissions import PermissionVerdict
from harness.sources.tool import ToolPermission


class PermissionPolicy(Protocol):
    """Contract: asked and told in the thread of the loop alone, before every call and after every "always".

    One object serves a run and its sub-agents, and may change its mind between two calls.
    """

    def verdict(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> PermissionVerdict:
        """Decide one call; `call_id` is the model's own."""
        ...

    def denial(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        operations: Sequence[Operation] = (),
        call_id: str = "",
    ) -> str | None:
        """Why it must not run whatever else was said, asked right before it does; None when nothing forbids it."""
        ...

    def grant(self, permission: ToolPermission) -> None:
        """A person said "always"."""
        ...
