"""A scripted model and, beside it, one agent's bench: everything that is needed to run that agent offline.

with Rehearsal(read_script("hello.toml"), "claude", home=folder, cwd=project) as rehearsal:
    run = harness.start(rehearsal.request("Say hello"))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Self

from harness.lab.fixture import AgentFixture, LabContext, LaunchConfig, load_fixture, set_up
from harness.lab.request_log import RequestEntry
from harness.lab.script_run import ScriptRun
from harness.lab.server import LabServer
from harness.sources.agent import Version
from harness.sources.models.script import Script
from harness.sources.request import Limits, Request


class OfflineAgent:
    """Contract: serves until `close`. Writes only below `home`, which is the caller's to remove.

    Raises UsageError for a script that this agent cannot play, and for a port that is taken.
    """

    def __init__(
        self,
        script: Script,
        agent: str,
        *,
        home: str,
        cwd: str,
        version: Version = (),
        mcp_servers: Mapping[str, tuple[str, ...]] = {},
        port: int = 0,
        record_path: str = "",
        on_entry: Callable[[RequestEntry], object] | None = None,
    ) -> None:
        self.agent = agent
        self.bench: AgentFixture = load_fixture(agent)
        self.server = LabServer(port=port, record_path=record_path, on_entry=on_entry)
        try:
            self.place = LabContext(
                url=self.server.url,
                home=os.path.abspath(home),
                cwd=os.path.abspath(cwd),
                version=version,
                mcp_servers=mcp_servers,
            )
            self.server.play = ScriptRun(script, self.bench, self.place)
            self.rig: LaunchConfig = set_up(self.bench, self.place)
        except BaseException:
            self.server.close()
            raise

    def request(self, prompt: str, *, binary: str = "", limits: Limits | None = None) -> Request:
        return Request(
            agent=self.agent,
            prompt=prompt,
            binary=binary,
            cwd=self.place.cwd,
            model=self.rig.model,
            env=self.rig.env,
            extra_args=self.rig.args,
            limits=limits or Limits(),
        )

    def play(self, script: Script) -> None:
        """Go on with another script; what was counted of the last one is forgotten."""
        self.server.play = ScriptRun(script, self.bench, self.place)

    def close(self) -> None:
        self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
