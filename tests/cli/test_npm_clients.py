"""The official clients on npm: that of ACP against `harness acp`, that of MCP against `harness mcp`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import node_packages
from acp_editor import environment_of
from harness.clients.mcp.tools import TOOLS
from test_cli_acp import SCRIPT
from test_cli_mcp import Shop

HERE = Path(__file__).parent
REFUSALS = {"session/resume": -32002, "session/new": -32602, "session/prompt": -32602, "no/such": -32601}


def report_of(program: Path, wanted: dict[str, Any], environment: dict[str, str], *packages: str) -> Any:
    """What a client says of it. The folder has the packages."""
    folder = node_packages.folder(*packages)
    done = subprocess.run(
        ["node", str(program), json.dumps(wanted)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_acp(report: dict[str, Any], version: int) -> None:
    assert report["version"] == version
    assert (report["first"], report["second"]) == ("end_turn", "cancelled")
    assert report["asked"] in (1, 2)  # the turn may be stopped before the second question is answered
    assert report["isListed"]
    assert report["refusals"] == REFUSALS
    assert {"agent_message_chunk", "tool_call_update", "available_commands_update"} <= report["kinds"].keys()
    assert ("state_update" in report["kinds"]) is (version == 2)


@pytest.mark.parametrize("version", [1, 2])
def test_the_client_of_acp_prompts_allows_stops_and_is_refused(tmp_path: Path, version: int) -> None:
    work, script = tmp_path / "work", tmp_path / "script.toml"
    work.mkdir()
    script.write_text(SCRIPT)
    command = [
        *(sys.executable, "-m", "harness", "acp", "--agent"),
        "native",
        "--model",
        f"scripted/{script}",
    ]
    wanted = {"version": version, "cwd": str(work), "command": command}
    packages = ("@agentclientprotocol/sdk", "ws")
    check_acp(report_of(HERE / "acp_client.mjs", wanted, environment_of(tmp_path), *packages), version)
    assert (work / "made.txt").exists()


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_client_of_mcp_runs_an_agent_that_asks(tmp_path: Path, mode: str, version: str) -> None:
    shop = Shop(tmp_path)
    wanted = {"mode": mode, "cwd": str(shop.work), "command": [sys.executable, *shop.command]}
    report = report_of(HERE / "mcp_client.mjs", wanted, shop.environment, "@modelcontextprotocol/client")
    assert report["version"] == version
    assert report["tools"] == [tool["name"] for tool in TOOLS]
    assert (report["outcome"], report["text"]) == ("completed", "The purple file is there.")
    assert report["asked"] == 1
    assert report["progress"] >= 1
    assert report["refused"] == "-32602"
    assert (shop.work / "made.txt").exists()
