"""The agent program `otter`: asks a model over Chat Completions, runs commands, reads files, and stores its sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

_PARAMETERS = {"sh": "command", "read": "path"}


class Otter:
    def __init__(self, words: list[str]) -> None:
        self._asks, self._talks = "--ask" in words, "--talk" in words
        self.model = _option(words, "--model") or os.environ.get("OTTER_MODEL", "otter-1")
        self.session = _option(words, "--session") or str(uuid.uuid4())
        folder = Path.home() / ".otter" / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{self.session}.jsonl"
        self._messages: list[dict[str, Any]] = []
        self._tokens = {"in": 0, "out": 0}
        if self._file.exists():
            for stored in self._file.read_text().split("\n"):
                self._remember(json.loads(stored) if stored else {})
        else:
            self._store(kind="session", id=self.session, cwd=str(Path.cwd()), model=self.model)

    def converse(self) -> None:
        self._write(kind="hello", session=self.session, model=self.model)
        if not self._talks:
            self._turn(sys.stdin.read())
            return
        for text in sys.stdin:
            record = json.loads(text)
            if record["kind"] == "prompt":
                self._turn(record["text"])

    def _turn(self, prompt: str) -> None:
        self._store(kind="user", text=prompt)
        self._remember({"kind": "user", "text": prompt})
        self._tokens = {"in": 0, "out": 0}
        while calls := self._answer():
            for call in calls:
                self._carry_out(
                    call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])
                )
        self._record(kind="bye", ok=True, tokens=self._tokens)

    def _answer(self) -> list[dict[str, Any]]:
        tools = [
            {"type": "function", "function": {"name": name, "parameters": _schema(parameter)}}
            for name, parameter in _PARAMETERS.items()
        ]
        body = {"model": self.model, "messages": self._messages, "tools": tools}
        address = f"{os.environ['OTTER_URL']}/chat/completions"
        headers = {"content-type": "application/json", "authorization": "Bearer none"}
        with urlopen(Request(address, json.dumps(body).encode(), headers)) as response:  # noqa: S310
            answer = json.load(response)
        self._tokens["in"] += answer["usage"]["prompt_tokens"]
        self._tokens["out"] += answer["usage"]["completion_tokens"]
        message = answer["choices"][0]["message"]
        if message.get("content"):
            self._record(kind="say", text=message["content"])
        return message.get("tool_calls") or []

    def _carry_out(self, call_id: str, tool: str, given: dict[str, Any]) -> None:
        self._record(kind="call", id=call_id, tool=tool, input=given)
        is_allowed = not self._asks or self._is_allowed(call_id, tool, given)
        is_success, output = _call(tool, given) if is_allowed else (False, "not allowed")
        self._record(kind="result", id=call_id, ok=is_success, output=output)

    def _is_allowed(self, call_id: str, tool: str, given: dict[str, Any]) -> bool:
        self._write(kind="ask", id=call_id, tool=tool, input=given)
        for text in sys.stdin:
            record = json.loads(text)
            if record["kind"] == "answer" and record["id"] == call_id:
                return bool(record["ok"])
        return False

    def _record(self, **record: Any) -> None:
        self._store(**record)
        self._remember(record)
        self._write(**record)

    def _store(self, **record: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps({**record, "at": time.time_ns() // 1_000_000}) + "\n")

    def _write(self, **record: Any) -> None:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()

    def _remember(self, record: dict[str, Any]) -> None:
        match record.get("kind"):
            case "user":
                self._messages.append({"role": "user", "content": record["text"]})
            case "say":
                self._messages.append({"role": "assistant", "content": record["text"]})
            case "call":
                function = {"name": record["tool"], "arguments": json.dumps(record["input"])}
                call = {"id": record["id"], "type": "function", "function": function}
                self._messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            case "result":
                result = {"role": "tool", "tool_call_id": record["id"], "content": record["output"]}
                self._messages.append(result)


def _option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words else ""


def _schema(parameter: str) -> dict[str, Any]:
    return {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}


def _call(tool: str, given: dict[str, Any]) -> tuple[bool, str]:
    if tool == "read":
        try:
            return True, Path(given["path"]).read_text()
        except OSError as error:
            return False, str(error)
    done = subprocess.run(["/bin/sh", "-c", given["command"]], capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


def main() -> None:
    if "--version" in sys.argv:
        print("otter 1.0")
        return
    Otter(sys.argv[1:]).converse()


if __name__ == "__main__":
    main()
