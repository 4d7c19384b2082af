"""A real sandbox runner on the loopback, and wires to it that are cut or lead around."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from harness.contracts.request import Request
from harness.server.access.guard import RequestGuard
from harness.server.access.host_names import names_of
from harness.server.runner.app import Runner
from harness.server.serving import Serving, bind
from live_server import TIMEOUT_S, LiveServer

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "/bin/echo from the sandbox"}}


class LiveRunner(LiveServer):
    @contextmanager
    def running(self) -> Iterator[LiveRunner]:
        listening = bind("127.0.0.1", 0)
        self.port = listening.getsockname()[1]
        runner = Runner(self.store, str(self.folder))
        guard = RequestGuard(
            runner.app(), access=self.access, names=names_of(int(self.host.rpartition(":")[2]))
        )
        ready = threading.Event()
        serving = Serving(guard, listening, ready.set)
        thread = threading.Thread(target=serving.run, daemon=True)
        thread.start()
        assert ready.wait(TIMEOUT_S)
        try:
            yield self
        finally:
            serving.stop()
            thread.join(TIMEOUT_S)
            listening.close()

    def request(self, model: str, port: int = 0, **more: Any) -> Request:
        words = ("--runner", f"http://127.0.0.1:{port or self.port}")
        return Request(
            agent="remote",
            prompt="go",
            model=model,
            extra_args=(*words, "--token-file", str(self.folder / "server" / "token")),
            **more,
        )


class Cutter:
    """A wire to the runner that is cut again and again, after ever so many bytes of an answer.

    `only`: answers to requests that begin so; `times`: so often, and never again.
    """

    def __init__(self, port: int, most_bytes: int, only: bytes = b"GET", times: int = 1 << 30) -> None:
        self._port = port
        self._most_bytes = most_bytes
        self._only = only
        self._times = times
        self.cuts = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(near,), daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            near.close()
            return
        request = near.recv(65536).replace(f":{self.port}".encode(), f":{self._port}".encode())
        far.sendall(request)
        threading.Thread(target=rest, args=(near, far), daemon=True).start()
        is_cut = request.startswith(self._only) and self.cuts < self._times
        left = self._most_bytes if is_cut else 1 << 30
        with suppress(OSError):
            while left > 0 and (data := far.recv(min(4096, left))):
                near.sendall(data)
                left -= len(data)
        if left <= 0:
            self.cuts += 1
        for end in (near, far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # also for the thread that reads from it
            end.close()


def rest(near: socket.socket, far: socket.socket) -> None:
    """Forward until one side closes, and then close the other."""
    with suppress(OSError):
        while data := near.recv(65536):
            far.sendall(data)
    with suppress(OSError):
        far.shutdown(socket.SHUT_WR)


class Forwarder:
    """As `ssh -L` and `docker -p` do: nothing in the request is changed. `renamed`: but for the port that it names."""

    def __init__(self, port: int, *, renamed: bool = False) -> None:
        self.target = port
        self._renamed = renamed
        self._threads: list[threading.Thread] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        self.listening.close()

    def begin(self) -> None:
        """Pass everything on that comes from now on."""
        self._do(self._accept)

    def pass_on(self, near: socket.socket) -> threading.Thread:
        return self._do(self._connect, near)

    def _do(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self.pass_on(self.listening.accept()[0])

    def _connect(self, near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", self.target)) as far:
            request = near.recv(65536)
            if self._renamed:
                request = request.replace(f":{self.port}".encode(), f":{self.target}".encode())
            far.sendall(request)
            upwards = threading.Thread(target=rest, args=(near, far))
            upwards.start()
            rest(far, near)
            for end in (near, far):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            upwards.join()
