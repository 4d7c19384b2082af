"""GitHub Copilot CLI: `agent` its command lines and its stream, `acp` a conversation with it over ACP, `store` the
sessions that it has stored, `writer` a conversation written for it, `lab` how it runs offline, `calls` its calls and
sub-agents.
"""

from __future__ import annotations
