"""One file or folder per agent program, named after it.

Each has, from top to bottom: its tools (a `Toolset`), its command line (`command`), its translator, how it is held in a
conversation (a `TwoWay`), and `AGENT`.
"""

from __future__ import annotations
