"""An agent program with a server, as small as it can be, for tests: it runs a command, asks before, and can be stopped.

`sleep` in a prompt makes its command long. Not a test.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SESSION = "ses_1"


class ServedAgent:
    """What it does with a prompt, in a thread of its own."""

    def __init__(self) -> None:
        self.listeners: list[queue.Queue[dict[str, Any]]] = []
        self.prompts: queue.Queue[str] = queue.Queue()
        self.replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self.count = 0
        self.is_aborted = threading.Event()
        threading.Thread(target=self.work, daemon=True).start()

    def emit(self, name: str, **properties: Any) -> None:
        for listener in self.listeners:
            listener.put({"id": "evt", "type": name, "properties": {"sessionID": SESSION, **properties}})

    def message(self, role: str, **more: Any) -> str:
        self.count += 1
        info = {"id": f"msg_{self.count}", "role": role, "sessionID": SESSION, "time": {"created": 1}, **more}
        self.emit("message.updated", info=info)
        return f"msg_{self.count}"

    def part(self, message_id: str, kind: str, **more: Any) -> None:
        self.count += 1
        body = {
            "id": f"prt_{self.count}",
            "type": kind,
            "messageID": message_id,
            "sessionID": SESSION,
            **more,
        }
        self.emit("message.part.updated", part=body)

    def say(self, message_id: str, text: str) -> None:
        self.part(message_id, "text", text=text, time={"start": 1, "end": 2})
        tokens = {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        self.part(message_id, "step-finish", reason="stop", tokens=tokens, cost=0)

    def work(self) -> None:
        while True:
            prompt = self.prompts.get()
            asked = self.message("user")
            self.part(asked, "text", text=prompt)
            self.emit("session.status", status={"type": "busy"})
            answer = self.message("assistant", parentID=asked)
            self.part(answer, "step-start")
            if prompt.startswith("run "):
                self.call(answer, prompt.removeprefix("run "))
            else:
                self.say(answer, f"You said: {prompt}")
            is_aborted = self.is_aborted.is_set()
            if is_aborted:
                self.is_aborted.clear()
                error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
                self.emit("session.error", error=error)
                self.emit("session.idle")
            info = {"id": answer, "role": "assistant", "sessionID": SESSION, "time": {"completed": 2}}
            self.emit("message.updated", info=info)
            self.emit("session.idle")

    def call(self, answer: str, command: str) -> None:
        self.count += 1
        names = {"id": f"prt_{self.count}", "callID": f"call_{self.count}", "tool": "bash", "type": "tool"}
        body = {**names, "messageID": answer, "sessionID": SESSION}
        input = {"command": command}
        self.emit("message.part.updated", part={**body, "state": {"status": "running", "input": input}})
        tool = {"messageID": answer, "callID": names["callID"]}
        request = {
            "id": "per_1",
            "permission": "bash",
            "patterns": [command],
            "metadata": input,
            "tool": tool,
        }
        self.emit("permission.asked", **request)
        reply = self.replies.get()
        state: dict[str, Any] = {"status": "completed", "input": input, "output": "", "metadata": {"exit": 0}}
        if reply["reply"] == "reject":
            said = f" with the following feedback: {reply['message']}" if "message" in reply else ""
            error = f"The user rejected permission to use this specific tool call{said}"
            state = {"status": "error", "input": input, "error": error}
        elif "sleep" in command:
            self.is_aborted.wait(60)
            state["metadata"] = {"exit": None}
        self.emit("message.part.updated", part={**body, "state": state})
        if self.is_aborted.is_set():
            return
        steered = [self.prompts.get() for _ in range(self.prompts.qsize())]
        self.part(answer, "step-start")
        self.say(answer, " ".join(["Done.", *(f"Also {text}." for text in steered)]))


class ServedHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    agent: ServedAgent

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_GET(self) -> None:
        if self.path == "/event":
            self._stream()
        else:
            self._answer({} if self.path == "/session/status" else [])

    def do_PATCH(self) -> None:
        self._body()
        self._answer({"id": SESSION, "directory": os.getcwd()})

    def do_POST(self) -> None:
        body = self._body()
        match self.path.split("/")[1:]:
            case ["session"]:
                self._answer({"id": SESSION, "directory": os.getcwd()})
            case ["session", _, "prompt_async"]:
                self.agent.prompts.put(body["parts"][0]["text"])
                self._answer(None, 204)
            case ["session", _, "abort"]:
                self.agent.is_aborted.set()
                self._answer(True)
            case ["permission", _, "reply"]:
                self.agent.replies.put(body)
                self._answer(True)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["content-length"])) or b"null")

    def _answer(self, body: object, status: int = 200) -> None:
        key = f"{os.environ['OPENCODE_SERVER_USERNAME']}:{os.environ['OPENCODE_SERVER_PASSWORD']}"
        if self.headers["authorization"] != "Basic " + base64.b64encode(key.encode()).decode():
            status = 401
        content = b"" if status == 204 else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        events: queue.Queue[dict[str, Any]] = queue.Queue()
        events.put({"type": "server.connected", "properties": {}})
        self.agent.listeners.append(events)
        while True:
            self.wfile.write(f"data: {json.dumps(events.get())}\n\n".encode())
            self.wfile.flush()


if __name__ == "__main__":
    if "--version" in sys.argv:
        print("1.18.33")
        raise SystemExit
    ServedHandler.agent = ServedAgent()
    server = ThreadingHTTPServer(("127.0.0.1", 0), ServedHandler)
    server.daemon_threads = True
    print(f"opencode server listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
