"""The interpreter of a REPL: a program of its own, started by `repl`, in which a model's code runs.

It speaks in frames: the length in 4 bytes, then a JSON object. On stdin come

    start      context_bytes, memory_bytes, processor_s, most_characters, is_confined; the context follows, bare
    run        turn, code
    reply      id, and value or error
    interrupt

and on stdout go

    ready      or `refused` with a reason: then it ends
    output     stream, text: what the code printed; never much more than `most_characters` of it in one turn
    call       id, name, arguments: answered by a `reply`
    end        error and final, each a text or null

Variables live from turn to turn. The code has all of Python's own modules that are named here: after the
start the process can open no file, so that what is not loaded by then cannot be.
"""

from __future__ import annotations

import builtins
import importlib
import io
import json
import linecache
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from harness.native.rlm import repl_pipe
from harness.native.rlm.repl_pipe import Pipe, PrintedOutput, Printer, TimeLimit
from harness.system.interpreter_confinement import confine, limit

MODULES = (
    *("array", "ast", "base64", "binascii", "bisect", "calendar", "cmath", "codecs", "collections"),
    *("collections.abc", "concurrent.futures", "concurrent.futures.thread", "contextlib", "copy", "csv"),
    *("dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch", "fractions", "functools", "gzip"),
    *("hashlib", "heapq", "html", "html.parser", "io", "itertools", "json", "keyword", "math", "numbers"),
    *("operator", "pprint", "queue", "random", "re", "shlex", "statistics", "string", "struct", "textwrap"),
    *("threading", "time", "tokenize", "types", "typing", "unicodedata", "urllib.parse", "uuid", "warnings"),
    *("xml.etree.ElementTree", "zlib", "_strptime", "encodings.ascii", "encodings.cp1252", "encodings.idna"),
    *("encodings.latin_1", "encodings.unicode_escape", "encodings.utf_16", "encodings.utf_8_sig"),
)
"""What a model's code may import. Some are here because others fetch them only when they are used."""

_OUR_TOOLS = ("ctypes", "_ctypes", "resource")
"""No longer of use: the kernel refuses what they could do."""
_DEAF = 70
_THREAD_STACK_BYTES = 1024 * 1024
_OUR_FILES = (__file__, repl_pipe.__file__)


class CallError(RuntimeError):
    """What a function of the REPL could not do."""

    __module__ = "builtins"  # a traceback then shows the name alone


class QueriesError(CallError):
    """Some of several queries failed; `results` has the answers of the others, and None for these."""

    __module__ = "builtins"

    def __init__(self, message: str, results: list[str | None]) -> None:
        super().__init__(message)
        self.results = results


class ExecResult(dict[str, Any]):
    """`result.stdout` is `result["stdout"]`; likewise `stderr` and `exit_code`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Pending:
    """A call that waits for its reply."""

    def __init__(self) -> None:
        self.reply: dict[str, Any] = {}
        self.is_answered = threading.Event()


class Interpreter:
    def __init__(self, pipe: Pipe, context: str, most_characters: int) -> None:
        self._pipe = pipe
        self._output = PrintedOutput(pipe, most_characters)
        self._turns: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._pending: dict[int, Pending] = {}
        self._calls = 0
        self._final: str | None = None
        self._is_running = False
        self._functions = {
            "llm_query": self.llm_query,
            "llm_query_many": self.llm_query_many,
            "exec": self.execute,
            "FINAL": self.final,
        }
        self._names: dict[str, Any] = {
            "__name__": "__main__",
            "__builtins__": builtins,
            "context": context,
        }
        self._names.update(self._functions)

    def serve(self) -> NoReturn:
        sys.stdin = io.StringIO()  # there is no keyboard, and the frames are not for the code
        sys.stdout = Printer(self._output, "stdout")
        sys.stderr = Printer(self._output, "stderr")
        signal.signal(signal.SIGINT, self._on_interrupt)
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            try:
                frame = self._turns.get()
                self._pipe.send(type="end", **self._run(frame["code"], frame["turn"]))
            except TimeLimit:
                continue  # it came when the turn was over

    # What the code may call

    def llm_query(self, prompt: str, ctx: Any = None) -> str:
        """Ask a language model, which sees only this prompt and this context; its answer."""
        return str(_value_of(self._wait(self._ask("llm_query", _query(prompt, ctx)))))

    def llm_query_many(self, prompts: Iterable[str], contexts: Any = None) -> list[str]:
        """Ask many at the same time; their answers in order. `contexts`: one for all, or a list with one for each."""
        prompt_list = list(prompts)
        context_list = list(contexts) if isinstance(contexts, list | tuple) else [contexts] * len(prompt_list)
        if len(context_list) != len(prompt_list):
            raise ValueError(f"{len(prompt_list)} prompts but {len(context_list)} contexts")
        waiting = [
            self._ask("llm_query", _query(prompt, ctx))
            for prompt, ctx in zip(prompt_list, context_list, strict=True)
        ]
        replies = [self._wait(pending) for pending in waiting]
        errors = [reply["error"] for reply in replies if "error" in reply]
        if errors:
            raise QueriesError(
                f"{len(errors)} of {len(prompt_list)} queries failed, the first with: {errors[0]} "
                "(the answers of the others are in the exception's `results`)",
                [reply.get("value") for reply in replies],
            )
        return [str(reply["value"]) for reply in replies]

    def execute(self, cmd: str, timeout: float | None = None) -> ExecResult:
        """Run a shell command outside: its stdout, stderr and exit_code."""
        arguments = {"command": str(cmd)} if timeout is None else {"command": str(cmd), "timeout": timeout}
        return ExecResult(_value_of(self._wait(self._ask("exec", arguments))))

    def final(self, answer: Any) -> None:
        """Give the final answer. The code continues to its end."""
        self._final = str(answer)

    # Turns

    def _run(self, code: str, turn: int) -> dict[str, str | None]:
        name = f"<turn {turn}>"
        linecache.cache[name] = (len(code), None, [f"{line}\n" for line in code.split("\n")], name)
        self._final = error = None
        self._names.update(self._functions)
        self._output.begin()
        try:
            try:
                self._is_running = True
                exec(compile(code, name, "exec"), self._names)  # noqa: S102  # this is what the process is for
            finally:
                self._is_running = False
            self._output.flush()
        except BaseException as problem:  # noqa: BLE001 # the model's program may raise anything, `SystemExit` too
            self._is_running = False
            error = _described(problem)
            self._output.flush()
        return {"error": error, "final": self._final}

    def _on_interrupt(self, _number: int, _frame: object) -> None:
        if self._is_running:
            self._pipe.interrupt()

    def _listen(self) -> None:
        """In a thread of its own: what Harness says."""
        main = threading.main_thread().ident
        assert main is not None
        try:
            while True:
                frame = self._pipe.receive()
                if frame["type"] == "run":
                    self._turns.put(frame)
                elif frame["type"] == "reply":
                    self._answer(frame)
                elif frame["type"] == "interrupt":
                    signal.pthread_kill(main, signal.SIGINT)
        finally:
            os._exit(_DEAF)  # without the other end of the pipe there is nothing to do

    def _ask(self, name: str, arguments: dict[str, Any]) -> Pending:
        self._output.flush()
        pending = Pending()
        self._calls += 1
        call_id = self._calls
        self._pending[call_id] = pending
        self._pipe.send(type="call", id=call_id, name=name, arguments=arguments)
        return pending

    def _wait(self, pending: Pending) -> dict[str, Any]:
        pending.is_answered.wait()
        return pending.reply

    def _answer(self, frame: dict[str, Any]) -> None:
        pending = self._pending.pop(frame["id"], None)
        if pending is not None:
            pending.reply = frame
            pending.is_answered.set()


class NothingMore:
    """The last finder of modules: says why there is none."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        del path, target
        raise ModuleNotFoundError(
            f"No module named {name!r} (only Python's own modules for computing are here)", name=name
        )


def _query(prompt: Any, ctx: Any) -> dict[str, str | None]:
    return {"prompt": _text(prompt), "context": None if ctx is None else _text(ctx)}


def _text(value: Any) -> str:
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _value_of(reply: dict[str, Any]) -> Any:
    if "error" in reply:
        raise CallError(reply["error"])
    return reply["value"]


def _described(problem: BaseException) -> str:
    """The traceback as far as it concerns the code of the model."""
    if isinstance(problem, TimeLimit):
        return "TimeLimit: the code took too long and was interrupted; variables keep what they had by then"
    try:
        described: traceback.TracebackException | None
        first = described = traceback.TracebackException.from_exception(problem)
        while described is not None:
            described.stack[:] = [frame for frame in described.stack if frame.filename not in _OUR_FILES]
            described = described.__cause__ or described.__context__
        return "".join(first.format()).strip()
    except BaseException as worse:  # noqa: BLE001 # an exception of the model's own making, or no memory left
        return f"{type(problem).__name__} (which cannot be shown: {type(worse).__name__})"


def _shut(start: dict[str, Any]) -> None:
    """Load what may be used, then give everything else up. Raises OSError where that is not possible."""
    for name in MODULES:
        importlib.import_module(name)
    threading.stack_size(_THREAD_STACK_BYTES)
    limit(start["memory_bytes"], start["processor_s"])
    if start["is_confined"]:
        confine()
        for name in _OUR_TOOLS:
            sys.modules.pop(name, None)
        sys.path.clear()
        sys.meta_path[:] = [
            finder
            for finder in sys.meta_path
            if getattr(finder, "__module__", "") != "_frozen_importlib_external"
        ]
        sys.meta_path.append(NothingMore)


def main() -> NoReturn:
    """Serve until Harness closes the pipe."""
    try:
        _main()
    except EOFError:
        pass
    os._exit(0)


def _main() -> None:
    # Only this module writes to Harness: what prints past `sys.stdout` goes where errors go.
    target = os.dup(1)
    os.dup2(2, 1)
    pipe = Pipe(0, target)
    start = pipe.receive()
    try:
        _shut(start)
    except OSError as error:
        pipe.send(type="refused", reason=f"{error.strerror or error}")
        return
    context = pipe.receive_bytes(start["context_bytes"]).decode("utf-8", "replace")
    interpreter = Interpreter(pipe, context, start["most_characters"])
    del context
    pipe.send(type="ready")
    interpreter.serve()
