"""Pi: `agent` its command lines and its stream, `driver` a conversation with it, `store` the sessions that it has
stored, `writer` a conversation written for it, `lab` how it runs offline, `answers` the answers of its models.
"""

from __future__ import annotations
