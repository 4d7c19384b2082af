"""Claude Code: `agent` its command lines and its stream, `driver` a conversation with it, `store` the sessions that
it has stored, `scan` what is new in them, read quickly, `writer` a conversation written for it, `lab` how it runs
offline.
"""

from __future__ import annotations
