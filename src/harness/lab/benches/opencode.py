"""OpenCode: a provider of its own in the settings, over Chat Completions. It asks for a title without tools."""

from __future__ import annotations

from harness.lab.bench import Bench
from harness.lab.families import opencode

BENCH = Bench(
    wire="chat",
    rig=lambda place: opencode.rig(place, "opencode"),
    calls=opencode.CALLS,
    lacks=opencode.LACKS,
    skills_folder=".opencode/skills",
)
