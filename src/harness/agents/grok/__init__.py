"""Grok Build: `agent` its command lines and its stream, `acp` a conversation with it over ACP, `tools` its tools,
`store` the sessions that it has stored, `writer` a conversation written for it, `lab` how it runs offline.
"""

from __future__ import annotations
