"""Tools of ours, as an agent that speaks ACP is handed them: with its session, as servers over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from harness.contracts.driver import Notice
from harness.contracts.tool_servers import ServedTools
from harness.contracts.translator import Record
from harness.events import Warning
from harness.formats.fields import record_of


def notices(servers: Sequence[ServedTools], initialized: Record) -> list[Notice]:
    """What is said where an agent cannot be handed them, by its answer to `initialize`."""
    if not servers or _takes_servers(initialized):
        return []
    message = "the agent takes no MCP servers over HTTP: the tools of the harness were not handed to it"
    return [Notice(Warning(message=message, code="tools_left_out"))]


def as_servers(servers: Sequence[ServedTools], initialized: Record) -> list[Record]:
    """For `mcpServers` of a session; none where the agent takes none."""
    return [
        {
            "type": "http",
            "name": server.name,
            "url": server.url,
            "headers": [{"name": name, "value": value} for name, value in server.headers.items()],
        }
        for server in (servers if _takes_servers(initialized) else ())
    ]


def _takes_servers(initialized: Record) -> bool:
    capabilities = record_of(initialized.get("agentCapabilities"))
    return record_of(capabilities.get("mcpCapabilities")).get("http") is True
