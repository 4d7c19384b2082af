"""Commands that need no extra can be loaded without one."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOAD = """
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras!r}:
            raise ModuleNotFoundError(f"no module named {{name}}", name=name)

sys.meta_path.insert(0, Absent())
for name in {modules!r}:
    importlib.import_module(f"harness.{{name}}")
"""
EXTRAS = ("websockets", "starlette", "uvicorn", "textual", "rich", "httpx", "duckdb", "psycopg", "shtab")


@pytest.mark.parametrize(
    "modules",
    [
        (
            "cli.live",
            "cli.chat.own_chat",
            "clients.conversations.local_backend",
            "clients.conversations.local_socket",
        ),
        ("cli.top.screen", "clients.inbox.local_sessions", "clients.inbox.listing", "cli.commands.wait"),
        (
            "cli.commands.sessions",
            "cli.session_diff",
            "clients.sessions.search",
            "clients.sessions.any_session",
        ),
        ("cli.fleet.running", "cli.fleet.best_of", "clients.changes.review", "clients.server_address"),
    ],
    ids=["run and chat", "inbox", "sessions", "fleet and changes"],
)
def test_loads_without_extras(modules: tuple[str, ...]) -> None:
    program = LOAD.format(extras=EXTRAS, modules=modules)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
