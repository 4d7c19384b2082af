"""An editor as ACP knows it: it starts `harness acp`, and everything that comes back is held against the schemas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Self

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[1] / "views" / "acp_schemas"
RESULTS = {
    "initialize": "InitializeResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/prompt": "PromptResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
}
PARAMETERS = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
}
WITHIN_S = 30.0


@cache
def _validator(version: int, name: str) -> Draft202012Validator | None:
    definitions = json.loads((SCHEMAS / f"v{version}.json").read_text())["$defs"]
    name = name if name in definitions else name.replace("SessionNotification", "UpdateSessionNotification")
    return (
        Draft202012Validator({"$defs": definitions, "$ref": f"#/$defs/{name}"})
        if name in definitions
        else None
    )


class Refused(Exception):
    """An error of the protocol."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class Editor:
    """`permits`: the answer to a request for permission; None: it is left unanswered."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *options: str,
        version: int = 1,
        permits: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None,
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "harness", "acp", *options]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
        )
        self.version = version
        self.permits = permits or allow_once
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.withdrawn: list[Any] = []
        self.errors = b""
        self._methods: dict[int, str] = {}
        self._answers: dict[int, Queue[dict[str, Any]]] = {}
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()
        if version == 1:
            given = {"clientCapabilities": capabilities or {}, "clientInfo": {"name": "test", "version": "0"}}
        else:
            given = {"capabilities": capabilities or {}, "info": {"name": "test", "version": "0"}}
        self.greeting = self.call("initialize", protocolVersion=version, **given)

    def call(self, method: str, /, **parameters: Any) -> dict[str, Any]:
        return self.answer(self.begin(method, **parameters))

    def begin(self, method: str, /, **parameters: Any) -> int:
        return self.begin_with(method, {"params": parameters})

    def begin_with(self, method: str, fields: dict[str, Any]) -> int:
        """With these fields beside its method and id, as odd as they may be."""
        number = len(self._methods) + 1
        self._methods[number] = method
        self._answers[number] = Queue()
        self.send({"jsonrpc": "2.0", "id": number, "method": method, **fields})
        return number

    def answer(self, number: int) -> dict[str, Any]:
        try:
            message = self._answers[number].get(timeout=WITHIN_S)
        except Empty:
            raise TimeoutError(
                f"no answer to {self._methods[number]}: {self.errors.decode()[-2000:]}"
            ) from None
        if "error" in message:
            raise Refused(message["error"])
        result: dict[str, Any] = message["result"]
        return result

    def send(self, message: dict[str, Any]) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def until(self, condition: Callable[[], Any]) -> Any:
        with self._changed:
            if not self._changed.wait_for(condition, WITHIN_S):
                raise TimeoutError(f"{self.updates[-5:]} {self.errors.decode()[-2000:]}")
        return condition()

    def text(self, kind: str = "agent_message_chunk") -> str:
        found = [one["content"]["text"] for one in self.updates if one["sessionUpdate"] == kind]
        return "".join(found)

    def count(self, kind: str) -> int:
        return sum(one["sessionUpdate"] == kind for one in self.updates)

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(20)
        self._end()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)
        self._end()

    def _end(self) -> None:
        for thread in self._threads:
            thread.join(20)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_about: object) -> None:
        if self.process.poll() is None:
            self.kill()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            try:
                self._take(message)
            except Exception as error:
                self.errors += f"{type(error).__name__}: {error}".encode()
                for waiting in self._answers.values():
                    waiting.put({"error": {"code": 0, "message": f"not valid: {error}"[:3000]}})
                raise
            finally:
                with self._changed:
                    self._changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            number = message["id"]
            if "result" in message:
                self._check(RESULTS.get(self._methods[number], ""), message["result"])
            if number in self._answers:
                self._answers[number].put(message)
            else:
                self.errors += json.dumps(message).encode()
            return
        self._check(PARAMETERS.get(method, ""), message["params"])
        if method == "session/update":
            self.updates.append(message["params"]["update"])
        elif method == "$/cancel_request":
            self.withdrawn.append(message["params"]["requestId"])
        else:
            self.asked.append(message)
            answer = self.permits(message["params"])
            if answer is not None:
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": answer})

    def _check(self, name: str, value: Any) -> None:
        validator = _validator(self.version, name) if name else None
        if validator is not None:
            validator.validate(value)


def allow_once(parameters: dict[str, Any]) -> dict[str, Any]:
    option = next(one["optionId"] for one in parameters["options"] if one["kind"] == "allow_once")
    return {"outcome": {"outcome": "selected", "optionId": option}}


def never(parameters: dict[str, Any]) -> None:
    """The person has left."""


def environment_of(home: Path) -> dict[str, str]:
    """Of a process whose home is a temporary folder."""
    folders = {
        name: str(home / folder)
        for name, folder in (
            ("XDG_DATA_HOME", "data"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_RUNTIME_DIR", "run"),
        )
    }
    (home / "run").mkdir(parents=True, exist_ok=True)
    return {**os.environ, **folders, "HOME": str(home)}
