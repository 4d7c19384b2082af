"""One agent beside a scripted model, with its fixture set up: everything that is needed to run it offline.

with OfflineAgent(read_script("hello.toml"), "claude", home=folder, cwd=project) as offline:
    run = harness.start(offline.request("Say hello"))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Self

from harness.contracts.agent import Version
from harness.contracts.fixture import AgentFixture, LabContext, LaunchConfig, set_up
from harness.contracts.request import Limits, Request
from harness.contracts.script import Script
from harness.lab.fixtures import load_fixture
from harness.lab.request_log import RequestEntry
from harness.lab.script_run import ScriptRun
from harness.lab.server import LabServer, start_of_tape


class OfflineAgent:
    """Contract: serves until `close`. Writes only below `home`, which the caller removes.

    Raises UsageError for a script that this agent cannot follow, and for a port that is taken.
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
        self.fixture: AgentFixture = load_fixture(agent)
        places = {"cwd": os.path.abspath(cwd), "home": os.path.abspath(home)}
        recorded_as = start_of_tape(agent, version=".".join(map(str, version)), **places)
        self.server = LabServer(
            port=port, record_path=record_path, recorded_as=recorded_as, on_entry=on_entry
        )
        try:
            self.context = LabContext(
                url=self.server.url,
                home=os.path.abspath(home),
                cwd=os.path.abspath(cwd),
                version=version,
                mcp_servers=mcp_servers,
            )
            self.use(script)
            self.config: LaunchConfig = set_up(self.fixture, self.context)
        except BaseException:
            self.server.close()
            raise

    def request(self, prompt: str, *, binary: str = "", limits: Limits | None = None) -> Request:
        return Request(
            agent=self.agent,
            prompt=prompt,
            binary=binary,
            cwd=self.context.cwd,
            model=self.config.model,
            env=self.config.env,
            extra_args=self.config.args,
            limits=limits or Limits(),
        )

    def use(self, script: Script) -> None:
        """Answer from another script, from its beginning."""
        self.server.script_run = ScriptRun(script, self.fixture, self.context)

    def close(self) -> None:
        self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
