"""Sessions that are too new to be loaded: their agent would write over them."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Mapping

from harness.contracts.agent import Agent, TwoWay
from harness.contracts.request import Request
from harness.errors import UsageError
from harness.runs.environment_paths import place_of

_MINUTE_S = 60
_LETTERS = 8
"""Of a session's id, in the name of its file."""


def require_no_new_session(
    agent: Agent, two_way: TwoWay, request: Request, environ: Mapping[str, str]
) -> None:
    """Raises UsageError where the session to be continued would be lost."""
    file, now = two_way.new_session_file, time.time()
    if file is None or not request.resume:
        return
    places = (place_of(folder, environ) for folder in file.folders)
    home = next((place for place in places if place and os.path.isdir(place)), "")
    minute = time.strftime("%Y-%m-%dT%H-%M", time.gmtime(now))

    def found(minute: str) -> list[str]:
        name = file.name.format(minute=minute, id=glob.escape(request.resume[:_LETTERS]))
        return glob.glob(os.path.join(glob.escape(home), name)) if home else []

    if (new := found(minute)) and sorted(found("*")) == sorted(new):
        wait_s = _MINUTE_S - int(now) % _MINUTE_S
        raise UsageError(
            f"{agent.title} would write over this session: it cannot load one in the minute of its beginning",
            hint=f"try again in {wait_s} seconds",
        )
