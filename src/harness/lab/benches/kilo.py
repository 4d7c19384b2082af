"""Kilo Code: OpenCode under other names, and a few services of its own to keep quiet. It edits its settings file."""

from __future__ import annotations

from msgspec.structs import replace

from harness.lab.bench import Bench, Place, Rig
from harness.lab.families import opencode

_QUIET = {
    "KILO_DISABLE_SESSION_INGEST": "1",
    "KILO_TELEMETRY_LEVEL": "off",
    "KILO_NO_DAEMON": "1",
    "KILO_SESSION_RETRY_LIMIT": "2",
}


def _rig(place: Place) -> Rig:
    rig = opencode.rig(place, "kilo")
    return replace(rig, env={**rig.env, **_QUIET})


BENCH = Bench(
    wire="chat",
    rig=_rig,
    calls=opencode.CALLS,
    lacks=opencode.LACKS,
    skills_folder=".kilo/skills",
)
