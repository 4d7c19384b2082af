"""Whether settings of the user let an agent do something without asking although it was told to ask."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from glob import escape, glob

from harness.contracts.agent import Agent, TwoWay
from harness.errors import UsageError
from harness.runs.environment_paths import place_of


def require_asking(agent: Agent, two_way: TwoWay, environ: Mapping[str, str], cwd: str) -> None:
    """Raises UsageError where there are such settings. `cwd`: empty where the settings of the folder are not used."""
    settings = two_way.trusting
    if settings is None:
        return
    places = filter(None, (place_of(name, environ, cwd) for name in settings.files))
    for path in (path for place in places for path in _files_at(place)):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        if re.search(settings.pattern, text):
            raise UsageError(
                f"{agent.title} does not ask about everything: {settings.what.format(path=path)}",
                hint="--permissions agent-default asks you what it asks"
                + ("" if settings.reach_reading else ", read-only changes nothing"),
            )


def _files_at(place: str) -> list[str]:
    """Of a pattern, which only the last name can be."""
    folder, name = os.path.split(place)
    return sorted(glob(os.path.join(escape(folder), name))) if "*" in name else [place]
