"""What the registry of ACP asks of an agent, of a home in which nothing was ever set up: a way to log in, and its methods in time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from acp_editor import Editor, Refused

WITHIN_S = 5.0
"""So long the registry waits for each method; the tests' machines may be busier."""
CLIENT = {
    "terminal": True,
    "fs": {"readTextFile": True, "writeTextFile": True},
    "_meta": {"terminal_output": True, "terminal-auth": True},
}
METHODS = ("session/list", "session/fork", "session/resume", "session/close")


def test_the_checks_of_the_registry(tmp_path: Path) -> None:
    home, sandbox = tmp_path / "home", tmp_path / "sandbox"
    home.mkdir()
    sandbox.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb"}
    with Editor(environment, capabilities=CLIENT) as editor:
        assert any(method.get("type", "agent") == "agent" for method in editor.greeting["authMethods"])
        offered = editor.greeting["agentCapabilities"]
        assert offered["loadSession"] is True
        place: dict[str, Any] = {"cwd": str(sandbox), "mcpServers": []}
        session = editor.call("session/new", **place)["sessionId"]
        for method in METHODS:
            assert offered["sessionCapabilities"][method.removeprefix("session/")] == {}
            began_s = time.monotonic()
            parameters = {} if method == "session/list" else {**place, "sessionId": session}
            assert isinstance(editor.call(method, **parameters), dict)
            assert time.monotonic() - began_s < 4 * WITHIN_S
            if method != "session/list":
                with pytest.raises(Refused) as refused:
                    editor.call(method, **{**place, "sessionId": "no-such-session"})
                assert refused.value.code == -32002
        assert editor.close() == 0
        assert editor.errors == b""
