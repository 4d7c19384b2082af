"""Agents that call agents through `harness mcp`, each of them the next: they end by the limit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from acp_editor import environment_of
from harness.events import ToolEnd
from harness.log.store import read_all
from harness.log.stores.files import FileStore

pytest.importorskip("mcp", reason="the extra `mcp` is not installed: pip install mcp")


def test_agents_that_call_each_other_end_by_the_limit(tmp_path: Path) -> None:
    work, script = tmp_path / "work", tmp_path / "script.toml"
    work.mkdir()
    call = '{ tool = "harness__run_agent", input = { prompt = "give it to another one" } }'
    script.write_text(f'turns = [ [ {call} ], [ {{ text = "Done." }} ] ]\n')
    options = ["--agent", "native", "--model", f"scripted/{script}", "--permissions", "full-access"]
    environment = environment_of(tmp_path)
    settings = Path(environment["XDG_CONFIG_HOME"]) / "harness"
    settings.mkdir(parents=True)
    server = {"command": sys.executable, "args": ["-m", "harness", "mcp", *options]}
    servers = settings / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {"harness": server}}))
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run", *options, "--mcp", str(servers), "--prompt", "begin"],
        env=environment,
        cwd=work,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    store = FileStore(str(Path(environment["XDG_DATA_HOME"]) / "harness" / "sessions"))
    logs = [list(read_all(store, one.session_id)) for one in store.list()]
    ends = [event for log in logs for event in log if isinstance(event, ToolEnd)]
    assert len(logs) == 4  # the first, and three below it
    assert sorted(end.success for end in ends) == [False, True, True, True]
    (refused,) = [end.output or "" for end in ends if not end.success]
    assert "3 deep already" in refused
