"""OpenCode: `agent` its command lines and its stream, `store` the sessions that it has stored, `writer` a
conversation written for it, `lab` how it runs offline.
"""

from __future__ import annotations
