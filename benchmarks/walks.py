"""How far something walks through the code: functions and files from a beginning to an end. Counted, not timed.

usage: python benchmarks/walks.py [-v]

| walk | from | to |
|---|---|---|
| message | `Harness.send_message` | the model is asked |
| answer to a program | a frame of the page arrives at the server's socket | the answer is written to the program's stdin |
| answer to our loop | the same | the tool that waited for it is called |
| call | a program has written a tool call | its event is written by `harness run --format ndjson` |
| delta | one event of a conversation in the server | all folds that are fed with it |

Beginnings and ends are outside of the code that is walked: an awaited function, bytes that are written. "functions" are
the distinct functions of this package that run in between, in all threads; "hops" those on the stack of the thread or
task that began, where it hands over, and on that of the end. What is imported and read once is not counted: each walk
is gone once before.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from starlette.websockets import WebSocket

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from corpus import claude_lines
from two_way import Lab

import harness as package
from harness.cli.main import main as command_line
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.contracts.model import Ask
from harness.contracts.request import OWN_AGENT
from harness.events import Event, Relay, TextDelta
from harness.log.stores.files import FileStore
from harness.models.scripted import Scripted
from harness.server.live.channels import Channels
from harness.server.live.session_socket import Socket
from harness.session.catalogue import ModelCatalogue
from harness.session.config import Mode
from harness.session.harness import Harness
from python_programs import python_program

ROOT = os.path.dirname(os.path.abspath(package.__file__)) + os.sep
TOOL = "tools" + os.sep + "bash.py"
WAKING = ("set_result", "create_task", "call_soon_threadsafe")
WAKE = b"\0"
"""What gives work to another thread or task: these calls, and a byte into the pipe that a thread waits for."""
PROGRAM = """import os, sys, time
if "--version" in sys.argv:
    print("2.1.325 (Claude Code)")
    sys.exit()
here = os.path.dirname(os.path.abspath(__file__))
for number in (1, 2):
    while not os.path.exists(os.path.join(here, "go%d" % number)):
        time.sleep(0.01)
    with open(os.path.join(here, "line%d" % number), "rb") as file:
        os.write(1, file.read())
while not os.path.exists(os.path.join(here, "go3")):
    time.sleep(0.01)
"""


class Walk:
    """Which functions of the package run between `begin` and `end`, in all threads."""

    def __init__(
        self, on_call: Callable[[FrameType], None] | None = None, *, follows_one_task: bool = False
    ) -> None:
        """`follows_one_task`: other tasks of the thread that began do something else meanwhile, and do not count."""
        self.seen: dict[CodeType, None] = {}
        self.first: list[str] = []
        """The deepest stack at which the thread or task that began woke another one."""
        self.last: list[str] = []
        self._on_call = on_call
        self._follows_one_task = follows_one_task
        self._is_on = False
        self._beginner = _worker()

    def begin(self) -> None:
        self.seen, self.first, self.last = {}, [], []
        self._beginner = _worker()
        self._is_on = True

    def end(self) -> None:
        """The first time counts."""
        if self._is_on:
            self._is_on = False
            self.last = _stack(sys._getframe())  # noqa: SLF001 # `inspect` is Python, and would be profiled

    def stop(self) -> None:
        self._is_on = False

    def wake(self, frame: FrameType) -> None:
        if self._is_on and _worker() == self._beginner:
            self.first = max(self.first, _stack(frame), key=len)

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self._is_on:
            return
        if event == "c_call":
            if argument.__name__ in WAKING:
                self.wake(frame)
        elif event == "call":
            if _is_own(frame.f_code):
                if self._follows_one_task and self._is_beside(_worker()):
                    return
                self.seen.setdefault(frame.f_code)
                if self._on_call is not None:
                    self._on_call(frame)
            elif frame.f_code.co_name in WAKING:
                self.wake(frame)

    def _is_beside(self, worker: tuple[int, int]) -> bool:
        return worker[0] == self._beginner[0] and worker != self._beginner

    def report(self, name: str) -> None:
        files = {code.co_filename for code in self.seen}
        hops = [*self.first, *(function for function in self.last if function not in self.first)]
        suffix = f", {len(hops)} hops" if hops else ""
        print(f"{name}: {len(self.seen)} functions in {len(files)} files{suffix}", flush=True)
        if "-v" in sys.argv:
            for code in self.seen:
                print(f"    {code.co_filename.removeprefix(ROOT)}:{code.co_firstlineno} {code.co_qualname}")
            print(f"    {' > '.join(self.first)}\n    ⋯ {' > '.join(self.last)}")


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(ROOT) and not code.co_name.startswith("<")


def _worker() -> tuple[int, int]:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.get_ident(), id(task)


def _stack(frame: FrameType | None) -> list[str]:
    stack: list[str] = []
    while frame is not None:
        if _is_own(frame.f_code):
            stack.insert(0, frame.f_code.co_qualname)
        frame = frame.f_back
    return stack


@contextmanager
def traced(walk: Walk) -> Iterator[None]:
    """For this thread, and those that begin meanwhile."""
    threading.setprofile(walk.profile)
    sys.setprofile(walk.profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        walk.stop()


@contextmanager
def written(on_write: Callable[[int, bytes], None]) -> Iterator[None]:
    """Every write to a descriptor is shown first."""
    write, writev = os.write, os.writev

    def shown_write(descriptor: int, data: Any) -> int:
        on_write(descriptor, bytes(data))
        return write(descriptor, data)

    def shown_writev(descriptor: int, pieces: Any) -> int:
        on_write(descriptor, b"".join(map(bytes, pieces)))
        return writev(descriptor, pieces)

    os.write, os.writev = shown_write, shown_writev
    try:
        yield
    finally:
        os.write, os.writev = write, writev


class Speaker:
    """A model that says something; with `tool`, it calls that before each time."""

    name = "walks/model"

    def __init__(self, on_ask: Callable[[], None], *, tool: str = "") -> None:
        self._on_ask = on_ask
        call = {"type": "tool_call", "name": tool, "input": {"command": "touch walked"}}
        turn = [{"events": [call]}, "Yes."] if tool else ["Yes."]
        self._script = Scripted(turn * 9, name=self.name)

    def answer(self, ask: Ask) -> AsyncIterator[Event]:
        self._on_ask()
        return self._script.answer(ask)


async def message(folder: str) -> None:
    walk = Walk()
    speaker = Speaker(walk.end)
    harness = Harness(
        id="walks",
        modes=[Mode(id="build", default_model_id="walks/model")],
        storage=FileStore(folder),
        resolve_model=lambda _id: speaker,
        environ={},
    )
    await harness.init()
    await harness.select_or_create_thread()
    await harness.send_message(content="Hello!")
    with traced(walk):
        walk.begin()
        await harness.send_message(content="Hello!")
    await harness.destroy()
    walk.report("message: send_message to the asked model")


class Page:
    """The client's end of a socket of the server."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._messages.put_nowait({"type": "websocket.connect"})

    async def receive(self) -> dict[str, Any]:
        taken = await self._messages.get()
        if '"approve"' in taken.get("text", ""):
            self._walk.begin()
        return taken

    async def send(self, _message: Any) -> None:
        return

    def say(self, command: dict[str, str]) -> None:
        text = json.dumps({"type": "commands", "commands": [command]})
        self._messages.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self) -> None:
        self._messages.put_nowait({"type": "websocket.disconnect"})


async def answer(folder: str, setup: Setup, walk: Walk) -> None:
    """Two questions are answered over a socket; the second one counts."""
    store = FileStore(folder)
    backend = LocalBackend(store, setup)
    channels, page = (
        Channels(store, backend, tick_s=60),
        Page(walk),
    )  # the page's own updates are another walk
    channels.open()
    try:
        log_id = await backend.create(setup)
        query = f"session={log_id}".encode()
        scope = {"type": "websocket", "path": "/ws", "query_string": query, "headers": []}
        serving = asyncio.create_task(Socket(WebSocket(scope, page.receive, page.send), channels).serve())
        cursor = 0
        for number in range(2):
            page.say({"type": "submit", "id": f"s{number}", "prompt": "Run it."})
            relay = await _relay(backend, log_id, cursor)
            cursor = relay.seq + 1
            page.say({"type": "approve", "id": f"a{number}", "relayId": relay.id})
            await _until(lambda: bool(walk.last) and not backend.status(log_id).is_running)
            if not number:
                walk.last = []
        page.leave()
        await serving
    finally:
        await channels.close()


async def _relay(backend: LocalBackend, log_id: str, cursor: int) -> Relay:
    relays: list[Relay] = []
    hub = backend.hub(log_id)
    assert hub is not None
    follower = hub.follower(cursor)

    def is_there() -> bool:
        relays.extend(event for event in follower.poll() if isinstance(event, Relay))
        return bool(relays)

    await _until(is_there)
    return relays[0]


async def _until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_true():  # noqa: ASYNC110 # nothing here has an event to wait for
            await asyncio.sleep(0.01)


def answer_to_program(folder: str) -> None:
    lab = Lab(list(claude_lines(5)), asks=True)
    walk = Walk(follows_one_task=True)

    def on_write(descriptor: int, data: bytes) -> None:
        if data == WAKE:
            walk.wake(sys._getframe(1))  # noqa: SLF001 # as above
        elif b'"behavior":"allow"' in data and not stat.S_ISREG(os.fstat(descriptor).st_mode):
            walk.end()

    os.environ["PATH"] = f"{lab.folder}{os.pathsep}{os.environ['PATH']}"
    with traced(walk), written(on_write):
        asyncio.run(answer(folder, Setup(agent="claude", cwd=str(lab.folder)), walk))
    lab.close()
    walk.report("answer: the page's frame to the program's stdin")


def answer_to_loop(folder: str) -> None:
    os.mkdir(folder)
    walk = Walk(lambda frame: walk.end() if _is_tool(frame.f_code) else None)
    speaker = Speaker(lambda: None, tool="bash")
    resolve, ModelCatalogue.resolve = ModelCatalogue.resolve, lambda *_: speaker  # type: ignore[method-assign]
    setup = Setup(agent=OWN_AGENT, model=speaker.name, cwd=folder, permission_mode="default")
    try:
        with traced(walk):
            asyncio.run(answer(os.path.join(folder, "logs"), setup, walk))
    finally:
        ModelCatalogue.resolve = resolve  # type: ignore[method-assign]
    walk.report("answer: the page's frame to the call that waits")


def _is_tool(code: CodeType) -> bool:
    return code.co_name == "run" and code.co_filename.endswith(TOOL)


async def delta(folder: str) -> None:
    os.mkdir(folder)
    folds = Counter[str]()

    def note(frame: FrameType) -> None:
        values = frame.f_locals.values()
        if frame.f_code.co_name == "feed" and any(isinstance(value, TextDelta) for value in values):
            folds[frame.f_code.co_qualname] += 1

    speaker = Speaker(lambda: None)
    resolve, ModelCatalogue.resolve = ModelCatalogue.resolve, lambda *_: speaker  # type: ignore[method-assign]
    walk, store = Walk(note), FileStore(folder)
    backend = LocalBackend(store, Setup(agent=OWN_AGENT, model=speaker.name, cwd=folder))
    channels, page = Channels(store, backend), Page(walk)
    try:
        log_id = await backend.create(Setup())
        query = f"session={log_id}".encode()
        scope = {"type": "websocket", "path": "/ws", "query_string": query, "headers": []}
        serving = asyncio.create_task(Socket(WebSocket(scope, page.receive, page.send), channels).serve())
        with traced(walk):
            walk.begin()
            page.say({"type": "submit", "id": "1", "prompt": "Hello!"})
            await _until(lambda: bool(folds) and not backend.status(log_id).is_running)
            await asyncio.sleep(0.3)  # for the next update of the page
            walk.stop()
        page.leave()
        await serving
    finally:
        ModelCatalogue.resolve = resolve  # type: ignore[method-assign]
        await channels.close()
    print("folds of one text delta in the server:", ", ".join(sorted(folds)) or "none")


def call(folder: str) -> None:
    """The program waits until it may write the second call, which counts."""
    os.mkdir(folder)
    here = Path(folder)
    program = python_program(here / "claude", PROGRAM, "-S")
    for number in (1, 2):
        part = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": "ls"}}
        line = {"type": "assistant", "message": {"id": f"m{number}", "role": "assistant", "content": [part]}}
        (here / f"line{number}").write_text(json.dumps(line) + "\n")
    walk, first = Walk(), threading.Event()
    (here / "go1").touch()

    def on_write(descriptor: int, data: bytes) -> None:
        if descriptor != 1 or b'"ToolStart"' not in data:
            return
        if b'"c2"' in data:
            walk.end()
            (here / "go3").touch()
        else:
            first.set()

    def let_go_on() -> None:
        first.wait()
        time.sleep(0.3)  # so that what the first call leads to is over
        walk.begin()
        (here / "go2").touch()

    threading.Thread(target=let_go_on, daemon=True).start()
    command = ["run", "--agent", "claude", "--binary", str(program), "--cwd", folder, "--format", "ndjson"]
    with silent(), traced(walk), written(on_write):
        command_line([*command, "--prompt", "List the files."])
    walk.report("call: a program's tool call to NDJSON")


@contextmanager
def silent() -> Iterator[None]:
    """What is written to stdout is not shown."""
    sys.stdout.flush()
    shown, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(shown, 1)
        os.close(shown)
        os.close(nowhere)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
            os.environ[variable] = os.path.join(folder, "home")
        os.chdir(folder)  # settings of a project would be walked through, too
        asyncio.run(message(os.path.join(folder, "message")))
        answer_to_program(os.path.join(folder, "program"))
        answer_to_loop(os.path.join(folder, "loop"))
        call(os.path.join(folder, "call"))
        asyncio.run(delta(os.path.join(folder, "delta")))


if __name__ == "__main__":
    main()
