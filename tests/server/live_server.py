"""A real server on the loopback, with a store of its own and an agent whose model is scripted."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

from harness import config
from harness.clients.conversations.backend import Backend, Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.events import Message, SessionStart, TextDelta
from harness.folds.page_state.object_stream import apply
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata, Store
from harness.log.stores.files import FileStore
from harness.server.access.credentials import open_access
from harness.server.access.guard import RequestGuard
from harness.server.access.host_names import names_of
from harness.server.access.responses import Failures
from harness.server.app import Plan, ServerApp
from harness.server.serving import Serving, bind

TIMEOUT_S = 60.0


class LiveServer:
    def __init__(self, folder: Path, store: Store | None = None) -> None:
        self.folder = folder
        self.store = store or FileStore(str(folder / "sessions"))
        self.access = open_access(str(folder / "server" / "token"), str(folder / "server" / "browsers.json"))
        self.reports: list[str] = []
        self.failures: list[str] = []
        self.port = 0
        self.remote: list[str] = []
        self.public_url = ""
        self.endpoints: list[str] = []
        self.fleets = ""
        """The database of fleets."""
        self.application: ServerApp | None = None
        self.guard: RequestGuard | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.access.token}"}

    def logged_in(self) -> str:
        """The credential of a browser that has just opened a link."""
        shown_text = {"code": self.access.new_link_code()}
        credential: str = httpx.post(f"{self.url}/api/login", json=shown_text).json()["credential"]
        return credential

    def as_browser(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.logged_in()}"}

    def subprotocols(self) -> tuple[str, str]:
        """What the socket of a browser offers."""
        return "harness", f"harness.credential.{self.logged_in()}"

    @contextmanager
    def serving_now(
        self, make_backend: Callable[[Store, Setup], Backend] = LocalBackend
    ) -> Iterator[LiveServer]:
        listening = bind("127.0.0.1", self.port)
        self.port = listening.getsockname()[1]
        default = Setup(agent="native", cwd=str(self.folder))
        plan = Plan(
            store=self.store,
            backend=lambda: make_backend(self.store, default),
            access=self.access,
            settings=config.load(str(self.folder), {}),
            default=default,
            names=names_of(self.port, self.remote, self.public_url),
            report=self.reports.append,
            failures=Failures(self.failures.append, is_verbose=True),
            fleets=self.fleets,
            endpoints=self.endpoints,
        )
        ready = threading.Event()
        self.application = ServerApp(plan)
        self.guard = self.application.guarded()
        serving = Serving(self.guard, listening, ready.set)
        thread = threading.Thread(target=serving.run, daemon=True)
        thread.start()
        assert ready.wait(TIMEOUT_S)
        try:
            yield self
        finally:
            serving.stop()
            thread.join(TIMEOUT_S)
            listening.close()
            assert not thread.is_alive()
        assert self.failures == [], "\n".join(self.failures)

    def script(
        self,
        *responses: Any,
        name: str = "script.json",
        pause_ms: int = 0,
        lanes: Mapping[str, Sequence[Any]] | None = None,
    ) -> str:
        """The name of a model with these answers. Each response: a text, or a list of events. `lanes`: those of
        conversations whose first message has that text.
        """

        def shown(given: Sequence[Any]) -> list[dict[str, Any]]:
            return [
                {"events": [{"type": "text", "content": one, "pieces": 3}] if isinstance(one, str) else one}
                for one in given
            ]

        path = self.folder / name
        other = [{"marker": marker, "responses": shown(given)} for marker, given in (lanes or {}).items()]
        path.write_text(json.dumps({"responses": shown(responses), "pause_ms": pause_ms, "lanes": other}))
        return f"scripted/{path}"

    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.bearer, timeout=TIMEOUT_S)

    def create(self, **wanted: Any) -> dict[str, Any]:
        with self.http() as client:
            answer = client.post("/api/sessions", json=wanted)
            assert answer.status_code == 201, answer.text
            created: dict[str, Any] = answer.json()
            return created

    def connect(self, session: str = "", **options: Any) -> connect:
        place = f"ws://{self.host}/ws" + (f"?session={session}" if session else "")
        return connect(place, additional_headers=self.bearer, compression=None, max_size=None, **options)


class Watcher:
    """A client that keeps what it was sent, and the state that it gives."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.state: dict[str, Any] = {}
        self.seq = -1
        self.messages: list[dict[str, Any]] = []

    async def command(self, type: str, **fields: Any) -> None:
        await self.send({"type": "commands", "commands": [{"type": type, **fields}]})

    async def send(self, message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(self.socket.recv(), TIMEOUT_S))
        self.messages.append(message)
        if message["type"] == "state":
            self.state, self.seq = message["state"], message["seq"]
        elif message["type"] == "delta":
            assert message["seq"] >= self.seq
            self.state, self.seq = apply(self.state, message["operations"]), message["seq"]
            assert self.state["seq"] == self.seq
        return message

    async def until(self, is_so: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Read on until the state is as wanted."""
        while not self.state or not is_so(self.state):
            await self.receive()
        return self.state

    async def until_error(self) -> dict[str, Any]:
        while (message := await self.receive())["type"] != "error":
            pass
        return message


def is_done(state: dict[str, Any]) -> bool:
    return bool(state["runs"]) and state["status"] != "running" and not state["isLive"]


def waits(state: dict[str, Any]) -> bool:
    return any(relay["status"] == "pending" for relay in state["relays"])


def run(work: Awaitable[None]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work, 200)

    asyncio.run(limited())


def recorded(live: LiveServer, count: int = 3) -> tuple[Hub, str]:
    """A log that is being written, as `harness run` would in another process."""
    log_id = new_run_id(time.time_ns() // 1_000_000)
    metadata = Metadata(
        session_id=log_id, agent="Claude Code", agent_name="claude", prompt="needle in the hay"
    )
    hub = Hub(live.store, log_id, live.store.create(metadata))
    source = hub.source(log_id)
    source.append([SessionStart(agent="claude"), Message(role="user", text="needle in the hay")])
    source.append([TextDelta(text=f"word{number} ") for number in range(count)])
    return hub, log_id


def events_of(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {"data": []}
    for line in lines:
        if not line:
            if event["data"]:
                yield {**event, "data": "\n".join(event["data"])}
            event = {"data": []}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = [*event["data"], value] if name == "data" else value
