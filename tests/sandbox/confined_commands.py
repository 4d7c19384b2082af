"""A program that runs commands with the `bash` tool, confined as asked; may be run as any user.

Reads {"engine": …, "root": …, "env": {…}, "commands": {name: command}} and writes {name: output}; or a list of
these, and writes a list.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from harness.contracts.tool import ToolContext
from harness.native.tools.bash import BashTool
from harness.sandbox.ladder import bubblewrap_program
from harness.sandbox.rungs import LANDLOCK, NAMESPACES, Rung, bubblewrap
from harness.workspace.commands import OutputFolder
from harness.workspace.roots import ToolWorkspace


def rung_of(engine: str) -> Rung | None:
    if engine == "bubblewrap":
        return bubblewrap(bubblewrap_program(os.environ))
    return {"namespaces": NAMESPACES, "landlock": LANDLOCK}.get(engine)


async def outputs_of(asked: dict[str, Any]) -> dict[str, str]:
    tool = BashTool(ToolWorkspace(asked["root"]), OutputFolder(asked["root"]), rung_of(asked["engine"]))
    context = ToolContext(cwd=asked["root"], env=asked["env"])
    calls = [tool.run({"command": command, "timeout": 20}, context) for command in asked["commands"].values()]
    results = await asyncio.gather(*calls, return_exceptions=True)
    outputs = [str(result) if isinstance(result, BaseException) else result.text for result in results]
    return dict(zip(asked["commands"], outputs, strict=True))


async def main() -> None:
    asked = json.load(sys.stdin)
    if isinstance(asked, list):
        print(json.dumps(await asyncio.gather(*map(outputs_of, asked))))
    else:
        print(json.dumps(await outputs_of(asked)))


if __name__ == "__main__":
    asyncio.run(main())
