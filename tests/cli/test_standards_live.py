"""ACP, AG-UI, ATIF and OpenTelemetry of a run: what is written while it happens is what its log gives later, byte for byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from acp_editor import environment_of
from harness.log.stores.files import FileStore

SCRIPT = """
turns = [
  [ { text = "I write.", pieces = 3 }, { tool = "bash", input = { command = "echo hi > made.txt" } }, { usage = { input = 100, output = 5 } } ],
  [ { text = "It is there." } ],
]
"""


@pytest.mark.parametrize("format", ["acp", "agui", "atif", "otel"])
def test_a_run_is_shown_live_as_it_is_later(tmp_path: Path, format: str) -> None:
    script, environment = tmp_path / "script.toml", environment_of(tmp_path)
    script.write_text(SCRIPT)

    def written(*arguments: str) -> bytes:
        command = [sys.executable, "-m", "harness", *arguments, "--format", format]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    options = ("--agent", "native", "--model", f"scripted/{script}", "--permissions", "full-access")
    live = written("run", *options, "--prompt", "write")
    store = FileStore(str(Path(environment["XDG_DATA_HOME"]) / "harness" / "sessions"))
    (log,) = store.list()
    assert b"It is there." in live or format == "otel"
    assert written("sessions", "show", log.session_id) == live
    assert written("sessions", "show", log.session_id) == live
