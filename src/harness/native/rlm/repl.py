"""A Python REPL for untrusted code: a confined process of its own, never this one.

`repl_process` runs there, and describes the protocol between the two. Nothing that comes from there is
trusted: it is bounded here again, and a process that breaks the rules is killed.

    time      of a turn, not counting what it waits for an answer; first interrupted, so that variables
              survive, then killed
    memory    a MemoryError in the code; a process that dies of it is replaced by a new one
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio import Future, Task, TimerHandle
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from harness.errors import SpawnFailed
from harness.native.rlm.repl_pipe import LENGTH_BYTES, MOST_FRAME_BYTES
from harness.process.child import ChildExit, OutputChunk
from harness.process.invocation import Invocation
from harness.workspace.async_process import AsyncProcess

TRUNCATED = "\n...[truncated]"
LOST = "it was replaced by a new one, in which `context` is there again and all other variables are gone"

_ROOT = os.path.abspath(os.path.join(__file__, *[os.pardir] * 4))
_BOOT = "import sys; sys.path.insert(0, {!r}); from harness.native.rlm.repl_process import main; main()"
_GRACE_S = 2.0
"""Between an interruption and the end."""
_START_S = 30.0
_MOST_CALLS = 1000
_LAST_WORDS_BYTES = 2048

ReplStream: TypeAlias = Literal["stdout", "stderr"]
_Function: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
"""What code may call: named arguments in, JSON out. What it raises is raised in the code, with the same message."""


class ReplLimits(msgspec.Struct, frozen=True, kw_only=True):
    time_s: float = 120.0
    """Of a turn."""
    processor_s: int = 3600
    """Of the whole process."""
    memory_bytes: int = 1 << 30
    """Besides what the context itself needs."""
    most_characters: int = 4000
    """Of what a turn prints."""
    is_confined: bool = True
    """Without it the code may do whatever this user may."""


class CodeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of some code."""

    stdout: str
    error: str
    final: str | None
    duration_ms: int
    is_truncated: bool


class _Turn:
    """What is known of the current turn."""

    def __init__(self, time_s: float) -> None:
        loop = asyncio.get_running_loop()
        self.ended: Future[dict[str, Any]] = loop.create_future()
        self.pieces: list[str] = []
        self.characters = 0
        self.left_s = time_s
        self.began_s = self.running_since_s = loop.time()
        self.timer: TimerHandle | None = None
        self.is_interrupted = False

    def end(self, error: str | None, final: str | None) -> None:
        if not self.ended.done():
            self.ended.set_result({"error": error, "final": final})


class Repl:
    """Contract: one turn at a time. After `run` was cancelled, only `close`."""

    def __init__(
        self,
        context: str,
        limits: ReplLimits,
        functions: Mapping[str, _Function],
        on_output: Callable[[ReplStream, str], None],
    ) -> None:
        self._context = context
        self._limits = limits
        self._functions = functions
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._child: AsyncProcess | None = None
        self._ready: Future[None] = self._loop.create_future()
        self._turn: _Turn | None = None
        self._turns = 0
        self._calls: set[Task[None]] = set()
        self._buffer = bytearray()
        self._last_words = b""
        self._reason = ""
        """Why we killed it."""
        self._takers: Mapping[str, Callable[[dict[str, Any]], None]] = {
            "ready": self._on_ready,
            "refused": self._on_refused,
            "output": self._on_printed,
            "call": self._on_call,
            "end": self._on_turn_end,
        }

    async def start(self) -> None:
        """Raises HarnessError when there is no process, or none that could be confined."""
        self._ready = self._loop.create_future()
        self._buffer.clear()
        self._last_words, self._reason = b"", ""
        context = self._context.encode("utf-8", "replace")
        limits = self._limits
        argv = (sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _BOOT.format(_ROOT))
        invocation = Invocation(argv, {"TZ": "UTC"}, "/", stdin_stays_open=True)
        child = self._child = await AsyncProcess.start(invocation, self._take)
        child.ended.add_done_callback(self._on_end)
        self._send(
            type="start",
            context_bytes=len(context),
            # Decoding needs the text twice for a moment, and code that looks at it makes copies.
            memory_bytes=limits.memory_bytes + 6 * len(context),
            processor_s=limits.processor_s,
            most_characters=limits.most_characters,
            is_confined=limits.is_confined,
        )
        child.write(context)
        try:
            async with asyncio.timeout(_START_S):
                await self._ready
        except TimeoutError:
            self.kill()
            raise SpawnFailed(f"the REPL was not ready within {_START_S:g} s") from None

    async def run(self, code: str) -> CodeResult:
        if self._child is None:
            await self.start()
        self._turns += 1
        turn = self._turn = _Turn(self._limits.time_s)
        self._send(type="run", code=code, turn=self._turns)
        self._resume_clock(turn)
        try:
            ending = await turn.ended
        finally:
            self._pause_clock(turn)
        await self._end_calls()
        self._turn = None
        stdout = "".join(turn.pieces)
        most = self._limits.most_characters
        is_truncated = turn.characters > most
        return CodeResult(
            stdout=stdout[:most] + TRUNCATED if is_truncated else stdout,
            error=_cut(ending["error"] or "", most),
            final=None if ending["error"] else ending["final"],
            duration_ms=round((self._loop.time() - turn.began_s) * 1000),
            is_truncated=is_truncated,
        )

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    async def close(self) -> None:
        """End the process, and everything that it still waits for."""
        self.kill()
        await self._end_calls()
        if self._child is not None:
            await self._child.close()

    # What comes from the process

    def _take(self, chunks: Sequence[OutputChunk]) -> None:
        for chunk in chunks:
            if chunk.stream == "stderr":
                self._last_words = (self._last_words + chunk.data)[-_LAST_WORDS_BYTES:]
            elif not self._reason:
                self._buffer += chunk.data
        while not self._reason and len(self._buffer) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
            if end > MOST_FRAME_BYTES + LENGTH_BYTES:
                self._expel()
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[LENGTH_BYTES:end])
            del self._buffer[:end]
            try:
                frame = msgspec.json.decode(body)
                self._takers[frame["type"]](frame)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                self._expel()

    def _expel(self) -> None:
        self._reason = self._reason or "it broke the rules and was ended"
        self.kill()

    def _on_ready(self, _frame: dict[str, Any]) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _on_refused(self, frame: dict[str, Any]) -> None:
        self._fail(
            SpawnFailed(
                f"this system cannot confine the REPL: {frame['reason']}",
                hint="nothing was run. If you trust the model and the context with everything that you "
                "may do here, allow it with `-- --unconfined-repl`",
            )
        )

    def _fail(self, error: SpawnFailed) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # marks it as retrieved: perhaps nothing waits for it any more

    def _on_printed(self, frame: dict[str, Any]) -> None:
        turn, text, stream = self._turn, str(frame["text"]), frame["stream"]
        if turn is None or turn.characters > self._limits.most_characters:
            return
        room = self._limits.most_characters - turn.characters
        turn.pieces.append(text[: room + 1])
        turn.characters += len(text)
        if shown_text := text[:room]:
            self._on_output("stderr" if stream == "stderr" else "stdout", shown_text)

    def _on_call(self, frame: dict[str, Any]) -> None:
        call_id, name, arguments = int(frame["id"]), str(frame["name"]), dict(frame["arguments"])
        turn = self._turn
        if turn is None or turn.ended.done():
            self._send(type="reply", id=call_id, error="the turn is over")
        elif len(self._calls) >= _MOST_CALLS:
            self._send(type="reply", id=call_id, error=f"more than {_MOST_CALLS} calls at once")
        else:
            if not turn.is_interrupted:
                self._pause_clock(turn)
            task = self._loop.create_task(self._answer(call_id, name, arguments))
            self._calls.add(task)
            task.add_done_callback(self._on_answered)

    def _on_turn_end(self, frame: dict[str, Any]) -> None:
        if self._turn is not None:
            error, final = frame["error"], frame["final"]
            self._turn.end(None if error is None else str(error), None if final is None else str(final))

    async def _answer(self, call_id: int, name: str, arguments: dict[str, Any]) -> None:
        function = self._functions.get(name)
        try:
            if function is None:
                raise LookupError(f"{name} is not available here")  # noqa: TRY301
            self._send(type="reply", id=call_id, value=await function(arguments))
        except Exception as error:  # noqa: BLE001 # the program of the model gets it as an exception
            self._send(type="reply", id=call_id, error=str(error) or type(error).__name__)

    def _on_answered(self, task: Task[None]) -> None:
        self._calls.discard(task)
        turn = self._turn
        if not self._calls and turn is not None and turn.timer is None and not turn.ended.done():
            self._resume_clock(turn)

    async def _end_calls(self) -> None:
        """Cancel the queries that are still open when the turn is over."""
        while self._calls:
            for task in self._calls:
                task.cancel()
            await asyncio.wait(self._calls)
            await asyncio.sleep(0)  # for the callbacks

    def _send(self, **frame: Any) -> None:
        if self._child is not None:
            body = msgspec.json.encode(frame)
            self._child.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)

    # Limits

    def _pause_clock(self, turn: _Turn) -> None:
        if turn.timer is not None:
            turn.timer.cancel()
            turn.timer = None
            turn.left_s -= self._loop.time() - turn.running_since_s

    def _resume_clock(self, turn: _Turn) -> None:
        turn.running_since_s = self._loop.time()
        turn.timer = self._loop.call_later(max(0.0, turn.left_s), self._expire, turn)

    def _expire(self, turn: _Turn) -> None:
        if turn.is_interrupted:
            self._reason = f"it did not stop after {self._limits.time_s:g} s and was ended"
            self.kill()
            return
        turn.is_interrupted = True
        turn.left_s = _GRACE_S
        self._send(type="interrupt")
        self._resume_clock(turn)

    def _on_end(self, exit_future: Future[ChildExit]) -> None:
        """The process has ended, for whatever reason."""
        self._child = None
        message = (
            f"the interpreter has ended: {self._reason or _cause(exit_future.result(), self._last_words)}"
        )
        self._fail(SpawnFailed(message))
        if self._turn is not None:
            self._turn.end(f"{message}; {LOST}", None)


def _cause(exit: ChildExit, last_words: bytes) -> str:
    how = f"by signal {exit.signal}" if exit.signal is not None else f"with exit code {exit.code}"
    last_line = last_words.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return f"{how} ({last_line})" if last_line else f"{how}, perhaps for want of memory"


def _cut(text: str, most_characters: int) -> str:
    return text if len(text) <= most_characters else text[:most_characters] + TRUNCATED
