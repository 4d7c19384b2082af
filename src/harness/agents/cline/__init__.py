"""Cline: `agent` its command lines and its stream, `tools` its tools, `store` the sessions that it has stored, `lab`
how it runs offline, `speakers` the agent of a record.
"""

from __future__ import annotations
