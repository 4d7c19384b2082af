"""A server as agent programs run one, for tests: `python small_server.py BEHAVIOUR`. Not a test."""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BEHAVIOUR = sys.argv[1]
KEY = f"{os.environ['LAB_SERVER_USERNAME']}:{os.environ['LAB_SERVER_PASSWORD']}"
EXPECTED = "Basic " + base64.b64encode(KEY.encode()).decode()
streams: list[SmallHandler] = []


class SmallHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        print(format % args, file=sys.stderr)

    def do_GET(self) -> None:
        if self.path == "/event":
            self._stream()
        else:
            self._answer(200, {"path": self.path})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"null")
        if self.path == "/die":
            print("dying", flush=True)
            os._exit(3)
        elif self.path == "/say":
            for stream in streams:
                stream.say(body)
            self._answer(200, True)
        elif self.path == "/cut":  # the stream
            while streams:
                streams.pop().connection.shutdown(socket.SHUT_RDWR)
            self._answer(200, True)
        elif self.path == "/garbage":
            self.wfile.write(b"what?\r\n\r\n")
            self.close_connection = True
        elif self.path == "/half":
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"a":')
            self.close_connection = True
        elif self.path == "/never":
            time.sleep(600)
        elif self.path == "/nothing":
            self._answer(204, None)
        else:
            self._answer(200 if self.path == "/echo" else 404, body)

    def _answer(self, status: int, body: object) -> None:
        content = b"" if status == 204 else json.dumps(body).encode()
        self.send_response(status if self.headers["authorization"] == EXPECTED else 401)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self) -> None:
        is_allowed = self.headers["authorization"] == EXPECTED and BEHAVIOUR != "refuses"
        self.send_response(200 if is_allowed else 401)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        streams.append(self)  # from its first event on, a client counts on all others
        self.say({"type": "server.connected", "properties": {}})
        self.say({"type": "server.heartbeat", "properties": {}})
        if BEHAVIOUR != "flaps":
            threading.Event().wait()
        self.close_connection = True

    def say(self, event: object) -> None:
        text = event if isinstance(event, str) else json.dumps(event)
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


if __name__ == "__main__":
    if BEHAVIOUR == "silent":
        time.sleep(600)
    server = ThreadingHTTPServer(("127.0.0.1", 0), SmallHandler)
    server.daemon_threads = True
    address = f"small server listening on http://127.0.0.1:{server.server_port}"
    print("warming up", flush=True)
    print("listening on http://192.0.2.1:80 is not here", flush=True)
    sys.stdout.write(address[:-2])
    sys.stdout.flush()
    print(address[-2:], flush=True)
    if BEHAVIOUR == "deaf":
        server.socket.close()
        time.sleep(600)
    server.serve_forever()
