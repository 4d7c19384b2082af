"""A program that runs commands with the `bash` tool, confined as asked; may be run as any user.

Reads {"engine": …, "root": …, "env": {…}, "commands": {name: command}} and writes {name: output}.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from harness.sources.sandbox import LANDLOCK, Sandbox, bubblewrap, bubblewrap_program
from harness.sources.tool import ToolContext
from harness.sources.tools.bash import BashTool
from harness.sources.workspace.output import OutputFolder
from harness.sources.workspace.roots import Workspace


def sandbox_of(engine: str) -> Sandbox | None:
    if engine == "bubblewrap":
        return bubblewrap(bubblewrap_program(os.environ))
    return LANDLOCK if engine == "landlock" else None


async def main() -> None:
    asked = json.load(sys.stdin)
    tool = BashTool(Workspace(asked["root"]), OutputFolder(asked["root"]), sandbox_of(asked["engine"]))
    context = ToolContext(cwd=asked["root"], env=asked["env"])
    calls = [tool.run({"command": command, "timeout": 20}, context) for command in asked["commands"].values()]
    outputs = [output.text for output in await asyncio.gather(*calls)]
    print(json.dumps(dict(zip(asked["commands"], outputs, strict=True))))


asyncio.run(main())
