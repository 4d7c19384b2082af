"""Servers for the lab's tests, each closed again and found without faults of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.lab import LabServer, ScriptRun, parse_script
from lab_client import Serve


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(script, …)` gives a server that answers from it."""
    servers: list[LabServer] = []

    def start(script: dict[str, Any] | ScriptRun, **options: Any) -> LabServer:
        run = script if isinstance(script, ScriptRun) else ScriptRun(parse_script(script))
        servers.append(LabServer(run, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
        assert server.faults == []
