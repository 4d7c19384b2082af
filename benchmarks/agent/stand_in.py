"""A model behind the API of OpenAI for the conversation of sixty messages: it knows nothing but what it is sent.

It reads the file that the last message names, and at the end writes down what it finds in the request: so what compaction
has lost is missing from its answer. Its summaries say nothing of what the user wanted. It refuses a request that is longer
than its window, and counts as cached what it was sent in the request before.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_FILE = re.compile(r"\bRead (part\d+\.txt)")
_WORD = re.compile(r"code word is (\w+)")
_WANTED = "Write the code word"
_SUMMARY = re.compile(r"call no tool|<conversation>")
_ADD = "awk '/^number/ {s += $2} END {print s}' part*.txt"


class StandIn(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, window: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.window = window
        self.longest = self.refused = 0
        self._before = ""
        self._lock = threading.Lock()

    def sizes(self, request: dict[str, Any]) -> tuple[int, int]:
        """Tokens of the request, and how many of them are as in the one before."""
        text = json.dumps([request.get("tools"), request["messages"]])
        with self._lock:
            same = _same(text, self._before)
            self._before = text
            size = len(text) // 4
            self.longest = max(self.longest, size)
            self.refused += size > self.window
        return size, same // 4


def _same(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


class _Answer(BaseHTTPRequestHandler):
    server: StandIn

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        size, cached = self.server.sizes(request)
        if size > self.server.window:
            words = f"prompt is too long: {size} tokens > {self.server.window} maximum"
            self._send(400, "application/json", [json.dumps({"error": {"message": words}})])
            return
        usage = {
            "prompt_tokens": size,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        delta = _answer(request["messages"])
        end = "tool_calls" if "tool_calls" in delta else "stop"
        chunks = [{"choices": [{"index": 0, "delta": delta}]}]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": end}], "usage": usage}]
        lines = [*(json.dumps({"id": "1", "model": "stand-in", **chunk}) for chunk in chunks), "[DONE]"]
        self._send(200, "text/event-stream", [f"data: {line}\n\n" for line in lines])

    def _send(self, status: int, kind: str, parts: list[str]) -> None:
        body = "".join(parts).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: Any) -> None:
        pass


def _answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    last, text = messages[-1], str(messages[-1].get("content"))
    if last["role"] == "tool":
        return {"role": "assistant", "content": "noted"}
    if _SUMMARY.search(text):
        return {"role": "assistant", "content": "Files were read, one after the other."}
    if _WANTED in text:
        found = _WORD.search(json.dumps(messages))
        command = f"(echo {found[1] if found else 'forgotten'}; {_ADD}) > sum.txt"
        return _call("bash", {"command": command})
    named = _FILE.search(text)
    return _call("read", {"filePath": named[1]}) if named else {"role": "assistant", "content": "noted"}


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"c{os.urandom(4).hex()}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@contextmanager
def stand_in(window: int) -> Iterator[StandIn]:
    server = StandIn(window)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
