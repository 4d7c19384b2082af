"""The official client of AG-UI takes our streams, and refuses what is wrong with a broken one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import node_packages
import standard_logs
from test_agui_view import streams, told

PROGRAM = Path(__file__).with_name("agui_client.mjs")
GROUPS = [*standard_logs.AGENTS, "live"]


def test_the_official_client_takes_every_stream() -> None:
    folder = node_packages.folder("@ag-ui/client", "rxjs")
    logs = [streams(told(log)) for group in GROUPS for _, log in standard_logs.logs(group)]
    logs.append(streams(told(standard_logs.everything())))
    text = json.dumps([log for log in logs if log])
    done = subprocess.run(
        ["node", str(PROGRAM)],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["refused"] == []
    assert report["streams"] > 1_000
    assert "not addressed by resume" in report["withoutResume"]
    for type, control in report["controls"].items():
        assert control["tried"] == control["refused"] > 0, type
