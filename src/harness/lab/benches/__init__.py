"""One file per agent that can be run offline; the file's name is the agent's. See `harness.lab.bench`."""

from __future__ import annotations
