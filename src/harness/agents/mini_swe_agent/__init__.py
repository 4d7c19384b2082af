"""mini-SWE-agent: `agent` its command line and its output, `gateway` how it is pointed at a model."""

from __future__ import annotations
