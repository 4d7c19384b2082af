"""The MCP server of the lab runs on its own, without Harness."""

from __future__ import annotations

import json
import subprocess
import sys

from harness.lab import echo_server


def test_the_server_answers_without_harness_and_its_dependencies() -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": {"text": "hello"}}}
    done = subprocess.run(
        [sys.executable, "-I", "-S", echo_server.__file__],
        input=json.dumps(asked) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["result"]["content"] == [{"type": "text", "text": "hello"}]
