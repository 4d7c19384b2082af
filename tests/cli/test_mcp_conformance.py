"""The conformance suite of MCP against `harness mcp`, in both generations of the protocol.

What is about HTTP is not tried: `harness mcp` speaks on standard input and output. Some checks ask for tools of the suite's own,
which they would call; those that can be a task of ours are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import node_packages
from acp_editor import environment_of
from mcp_bridge import McpBridge, outcomes

SCENARIOS = {
    "2025-11-25": ["server-initialize", "ping", "tools-list"],
    "2026-07-28": [
        "server-stateless",
        "tools-list",
        "input-required-result-unsupported-methods",
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-dispatch-and-envelope",
    ],
}
NOT_OURS = {
    "sep-2575-http-server-header-mismatch-400": "-32020",
    "sep-2575-server-rejects-undeclared-capability": "test_missing_capability",
    "sep-2575-missing-capability-http-400": "test_missing_capability",
    "sep-2575-http-server-no-independent-requests-on-stream": "test_streaming_elicitation",
    "sep-2575-server-no-log-without-loglevel": "test_logging_tool",
    "sep-2663-tasks-get-status-failed": "protocol_error_job",
    "tasks-mrtr-partial-fulfillment": "multi_input",
}
"""Expected failures: a header of HTTP, or a tool that only the suite knows. With what the reason must name."""
PASSED = ("SUCCESS", "INFO", "SKIPPED")


def program() -> list[str]:
    folder = node_packages.folder("@modelcontextprotocol/conformance")
    entry = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [node_packages.node(22), str(entry)]


def bridge(home: Path, *, is_silent: bool = False) -> McpBridge:
    work = home / "work"
    work.mkdir()
    return McpBridge(work, environment_of(home), is_silent=is_silent)


@pytest.mark.parametrize("version", SCENARIOS)
def test_the_official_suite_finds_nothing_wrong(tmp_path: Path, version: str) -> None:
    command = program()
    refused = []
    with bridge(tmp_path) as served:
        for scenario in SCENARIOS[version]:
            for check, found in outcomes(command, served.url, scenario, version, tmp_path).items():
                for status, why in found:
                    if check in NOT_OURS and NOT_OURS[check] in why:
                        continue
                    if status not in PASSED:
                        refused.append(f"{scenario}: {check}: {why}")
    assert not refused


@pytest.mark.parametrize(
    ("scenario", "version", "check"),
    [
        ("server-initialize", "2025-11-25", "server-initialize"),
        ("tools-list", "2026-07-28", "tools-list"),
        ("server-stateless", "2026-07-28", "sep-2575-server-implements-discover"),
        ("tasks-wire-fields", "2026-07-28", "tasks-wire-field-renames"),
        ("tasks-lifecycle", "2026-07-28", "sep-2663-result-type-task-on-create"),
    ],
)
def test_the_suite_refuses_a_server_that_leaves_something_out(
    tmp_path: Path, scenario: str, version: str, check: str
) -> None:
    command = program()
    with bridge(tmp_path, is_silent=True) as served:
        found = outcomes(command, served.url, scenario, version, tmp_path)
    assert [status for status, _ in found[check]] == ["FAILURE"]
