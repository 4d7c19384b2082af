"""A tool that is shown and cannot be called: in a mode that does not have it, its description stays where it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput
from harness.session.config import Mode

if TYPE_CHECKING:
    from harness.session.permissions import SessionPermissions


class HeldTool(Tool):
    """Contract: that of `Tool`. Nobody is asked about a call, and none is carried out."""

    category = "read"

    def __init__(self, tool: Tool, mode: str) -> None:
        self.spec = tool.spec
        self.refusal: str = f"{tool.spec.name} cannot be used in the mode {mode}: nothing was done"

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del arguments, context
        raise ToolFailure(self.refusal)


def allowed_tools(permissions: SessionPermissions, tools: Iterable[Tool], mode: Mode) -> list[Tool]:
    """Without what is denied; what only the mode does not have is left out too, or held back."""
    available = mode.available_tools
    allowed = permissions.without_denied(tools)
    if available is None:
        return allowed
    if not mode.keeps_prefix:
        return [tool for tool in allowed if tool.spec.name in available]
    return [tool if tool.spec.name in available else HeldTool(tool, mode.id) for tool in allowed]
