"""A small model inside this process, for a machine that has neither a key nor a network.

llama.cpp serves it on loopback with its own Chat Completions server, so it is called like any other model.
Each file of weights is loaded once per process, at the first call.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib.util import find_spec
from typing import Any

import msgspec

from harness.errors import HarnessError, MissingExtra, UsageError, how_to_install
from harness.events import Error, Event, StepEnd
from harness.sources.model import Ask
from harness.sources.models.chat import ChatCompletions, Habits
from harness.sources.models.http import HttpModel, ModelEndpoint, require_httpx
from harness.sources.models.local_weights import SIZE_MB, has_weights, weights_path

USUAL = "smollm2"
_CONTEXT_TOKENS = 8192
_OUTPUT_TOKENS = 512
"""The default output limit: a small model often does not stop by itself."""
_MOST_THREADS = 4


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
        self._asked: HttpModel | None = None

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        if self._asked is None:
            try:
                url, key = await asyncio.to_thread(_served, self._path)
            except HarnessError as error:
                yield Error(message=error.message, code="local_model")
                yield StepEnd(id="", stop_reason="error")
                return
            endpoint = ModelEndpoint(provider="local", model=self._model, url=url, key=key)
            self._asked = HttpModel(endpoint, ChatCompletions(endpoint, Habits(effort="")))
        if ask.max_output_tokens is None:
            ask = msgspec.structs.replace(ask, max_output_tokens=_OUTPUT_TOKENS)
        async with aclosing(self._asked.answer(ask)) as events:
            async for event in events:
                yield event


_lock = threading.Lock()
_servers: dict[str, tuple[Any, str]] = {}
"""By path of the weights: the server, which ends when it is dropped from here, and its key."""


def _served(path: str) -> tuple[str, str]:
    """The URL of the model's server, and its key, known to this process only. Slow the first time."""
    with _lock:
        if path not in _servers:
            if not _servers:
                atexit.register(_servers.clear)
            key = os.urandom(16).hex()
            _servers[path] = (_start(path, key), key)
        server, key = _servers[path]
    return f"{server.listening_address}/v1", key


def _start(path: str, key: str) -> Any:
    import xllamacpp

    # One thread less than there are cores: threads that wait for each other on a busy core are very slow.
    threads = max(1, min(_MOST_THREADS, (os.cpu_count() or 2) - 1))
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_ctx = _CONTEXT_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = -1
    params.warmup = params.ui = False
    try:
        return xllamacpp.Server(params)
    except (RuntimeError, ValueError, OSError) as error:
        raise HarnessError(f"the weights at {path} cannot be loaded: {error}") from error
