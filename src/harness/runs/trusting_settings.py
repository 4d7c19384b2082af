"""Whether settings of the user let an agent do something without asking although it was told to ask."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.contracts.agent import Agent, TwoWay
from harness.errors import UsageError
from harness.runs.environment_paths import place_of


def require_asking(agent: Agent, two_way: TwoWay, environ: Mapping[str, str], cwd: str) -> None:
    """Raises UsageError where there are such settings. `cwd`: empty where the settings of the folder are not used."""
    settings = two_way.trusting
    if settings is None:
        return
    for path in filter(None, (place_of(name, environ, cwd) for name in settings.files)):
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
