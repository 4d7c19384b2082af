"""Codex: `agent` its command lines and its stream, `driver` a conversation with it, `questions` what it asks,
`tools` its tools, `store` the sessions that it has stored, `scan` what is new in them, read quickly, `writer` a
conversation written for it, `lab` how it runs offline, `threads` the stream of a conversation, `thread_lines` how
that stream is told apart, `items` what is a call in both streams.
"""

from __future__ import annotations
