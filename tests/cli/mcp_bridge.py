"""`harness mcp` over HTTP, as the conformance suite of MCP asks: what is about HTTP itself is the bridge's, all else is ours.

Tools that the suite asks for by name are tasks here, of a model that says what they need.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

_MODERN = "io.modelcontextprotocol/protocolVersion"
_STATUS = {-32601: 404}
_WITHIN_S = 60.0
Fields = dict[str, Any]

_ASKS = '{ tool = "ask_user", input = { question = "Really?", options = [ { label = "yes" }, { label = "no" } ] } }'
SCRIPTS = {
    "slow_compute": '{ tool = "bash", input = { command = "sleep SECONDS" } } ], [ { text = "Computed." }',
    "failing_job": '{ tool = "bash", input = { command = "sleep 2" } } ], [ { error = "overloaded" }',
    "confirm_delete": f'{_ASKS} ], [ {{ text = "Deleted." }}',
}
"""Of the model, by the tool of the suite."""


class McpBridge:
    """A context: while it is open, `url` is served."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *, is_silent: bool = False) -> None:
        """`is_silent`: a broken server, which leaves out of every result what the protocol asks for."""
        self._folder, self._is_silent = folder, is_silent
        command = [
            sys.executable,
            "-m",
            "harness",
            "mcp",
            "--agent",
            "native",
            "--permissions",
            "full-access",
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(environment), cwd=folder
        )
        self._waiting: dict[str, tuple[threading.Event, Fields]] = {}
        self._lock = threading.Lock()
        self._count = 0
        bridge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, answer = bridge.answer(message)
                body = json.dumps(answer).encode() if answer else b""
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_about: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/mcp"
        for work in (self._read, self._server.serve_forever):
            threading.Thread(target=work, daemon=True).start()

    def answer(self, message: Fields) -> tuple[int, Fields]:
        """The status and the body for a message."""
        own, parameters = message.get("id"), message.get("params") or {}
        if message.get("method") == "tools/call":
            message = message | {"params": self._own_tool(parameters)}
        if own is None or "method" not in message:
            self._send(message)
            return 202, {}
        with self._lock:
            self._count += 1
            key = f"b{self._count}"
        done, found = self._waiting[key] = threading.Event(), {}
        self._send(message | {"id": key})
        done.wait(_WITHIN_S)
        is_modern = _MODERN in parameters.get("_meta", {}) or message["method"] != "initialize"
        code = found.get("error", {}).get("code")
        return _STATUS.get(code, 400) if code and is_modern else 200, found | {"id": own}

    def _own_tool(self, parameters: Fields) -> Fields:
        name, arguments = parameters.get("name"), parameters.get("arguments") or {}
        if name == "greet":
            return parameters | {"name": "list_sessions", "arguments": {}}
        if name not in SCRIPTS:
            return parameters
        script = self._folder / f"{name}-{arguments.get('seconds', 0)}.toml"
        script.write_text(
            f"turns = [ [ {SCRIPTS[name].replace('SECONDS', str(arguments.get('seconds')))} ] ]\n"
        )
        task = {"prompt": name, "model": f"scripted/{script}"}
        return parameters | {"name": "run_agent", "arguments": task}

    def _send(self, message: Fields) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if self._is_silent:
                for name in ("resultType", "capabilities", "ttlMs", "tools"):
                    message.get("result", {}).pop(name, None)
            if message.get("id") in self._waiting and "method" not in message:
                done, found = self._waiting.pop(message["id"])
                found.update(message)
                done.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_about: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._process.kill()
        self._process.wait(20)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def outcomes(
    program: Sequence[str], url: str, scenario: str, version: str, folder: Path
) -> dict[str, list[tuple[str, str]]]:
    """What the suite says of each of its checks, and why."""
    kept = folder / f"{scenario}-{version}"
    command = [*program, "server", "--url", url, "--scenario", scenario, "--spec-version", version, "--force"]
    done = subprocess.run(
        [*command, "--output-dir", str(kept)], capture_output=True, text=True, timeout=200, check=False
    )
    files = list(kept.rglob("checks.json"))
    assert files, done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, list[tuple[str, str]]] = {}
    for check in json.loads(files[0].read_text()):
        found.setdefault(check["id"], []).append((check["status"], check.get("errorMessage", "")))
    return found
