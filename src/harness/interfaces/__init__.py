"""How programs and people reach Harness.

`cli`, `tui`, `server`, `client` and `runner` are ways in. What they share: `conversations` runs them, `sessions` finds
them, `inbox` lists what needs a person, `changes` shows what was written, `workspaces` knows the folders.
"""

from __future__ import annotations
