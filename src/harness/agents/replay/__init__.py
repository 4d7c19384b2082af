"""A recording, played as a live process: `agent` its command lines and its stream, `program` the program that plays
a recording.
"""

from __future__ import annotations
