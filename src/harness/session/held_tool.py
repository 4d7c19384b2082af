"""A tool that is shown and cannot be called: in a mode that does not have it, its description stays where it is."""

from __future__ import annotations

from typing import Any

from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput


class HeldTool(Tool):
    """Contract: that of `Tool`. Nobody is asked about a call, and none is carried out."""

    category = "read"

    def __init__(self, tool: Tool, mode: str) -> None:
        self.spec = tool.spec
        self.refusal = f"{tool.spec.name} cannot be used in the mode {mode}: nothing was done"

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del arguments, context
        raise ToolFailure(self.refusal)
