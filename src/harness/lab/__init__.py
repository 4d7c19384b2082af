"""The lab: a scripted model for real agents, on loopback, in every wire format that they use.

A script (`read_script`) says what the model answers; a `LabServer` answers so; a fixture (`load_fixture`) says
how one agent is run offline and what each call by intent is in its own words. `OfflineAgent` is all of it.
"""

from __future__ import annotations

from harness.contracts.fixture import (
    AgentFixture,
    LabContext,
    LaunchConfig,
    set_up,
)
from harness.contracts.script import Script
from harness.lab.fixtures import fixture_names, load_fixture
from harness.lab.offline_agent import OfflineAgent
from harness.lab.request_log import RequestEntry
from harness.lab.script_run import ScriptRun
from harness.lab.server import LabServer
from harness.models.script_file import parse_script, read_script

__all__ = [
    "AgentFixture",
    "LabContext",
    "LabServer",
    "LaunchConfig",
    "OfflineAgent",
    "RequestEntry",
    "Script",
    "ScriptRun",
    "fixture_names",
    "load_fixture",
    "parse_script",
    "read_script",
    "set_up",
]
