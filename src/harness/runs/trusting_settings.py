"""Whether settings of the user let an agent do something without asking although it was told to ask."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from string import Template

from harness.contracts.agent import Agent, TwoWay
from harness.errors import UsageError


def require_asking(agent: Agent, two_way: TwoWay, environ: Mapping[str, str], cwd: str) -> None:
    """Raises UsageError where there are such settings. `cwd`: empty where the settings of the folder are not used."""
    settings = two_way.trusting
    if settings is None:
        return
    for path in filter(None, (_place(name, environ, cwd) for name in settings.files)):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        if re.search(settings.pattern, text):
            raise UsageError(
                f"{agent.title} does not ask about everything: {settings.what.format(path=path)}",
                hint="--permissions agent-default asks you what it asks, read-only changes nothing",
            )


def _place(name: str, environ: Mapping[str, str], cwd: str) -> str:
    """Empty where a variable is not set, or nothing of the folder counts."""
    if name.startswith("~"):
        name = f"{environ.get('HOME') or os.path.expanduser('~')}{name[1:]}"
    path = Template(name).safe_substitute(environ)
    if "$" in path:
        return ""
    return path if os.path.isabs(path) else os.path.join(cwd, path) if cwd else ""
