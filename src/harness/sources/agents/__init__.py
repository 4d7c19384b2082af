"""One file or folder per agent program, named after it.

Each has, from top to bottom: its tools (a `Toolset`), its command line (`command`), its translator, and `AGENT`.
"""

from __future__ import annotations
