"""A workspace with real files, and a way to call a tool in it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.tool import FileTimes, Tool, ToolContext, ToolFailure, ToolOutput
from harness.workspace.commands import OutputFolder
from harness.workspace.roots import ToolWorkspace


class Bench:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.outside = folder / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        self.workspace = ToolWorkspace(str(self.root))
        self.outputs = OutputFolder(str(folder / "outputs"))
        self.files = FileTimes()
        self.progress: list[str] = []
        self.env = {"PATH": os.environ["PATH"]}

    def context(self, **more: Any) -> ToolContext:
        return ToolContext(
            cwd=str(self.root), env=self.env, files=self.files, on_progress=self.progress.append, **more
        )

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def text(self, name: str) -> str:
        return (self.root / name).read_bytes().decode()

    def call(self, tool: Tool, **arguments: Any) -> ToolOutput:
        return asyncio.run(tool.run(arguments, self.context()))

    def refused(self, tool: Tool, **arguments: Any) -> str:
        """What the model is sent about a call that fails."""
        with pytest.raises(Exception) as caught:
            self.call(tool, **arguments)
        assert type(caught.value).__name__ in ("ToolFailure", "StaleFile"), repr(caught.value)
        return str(caught.value)


__all__ = ["Bench", "ToolFailure"]
