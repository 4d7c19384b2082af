"""What shell commands do: to files (`operations`), and which programs they run (`commands`)."""

from __future__ import annotations

from harness.formats.shell.operations import operations_of

__all__ = ["operations_of"]
