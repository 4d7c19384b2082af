"""How many tokens a server of your own really reads: it says so itself, and its default is often far below what the model can.

Ollama above all: unless `num_ctx` is set it reads 4,096 tokens, and cuts what is longer without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from harness.contracts.model import Model
from harness.errors import UsageError
from harness.models.own_server import answer_of, server_knows_tools
from harness.models.registry import LOCAL, PROVIDERS, TOY, endpoint_of

LEAST_FOR_AGENT = 10_000
"""Tokens: with less there is no room for work beside the tools and the instructions."""
_OLLAMA = "ollama"
_OLLAMA_USUAL = 4_096
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_KEYS = ("max_model_len", "context_length", "max_context_length", "n_ctx", "loaded_context_length")


def served_window(model: str, environ: Mapping[str, str]) -> int | None:
    """What the server of that model (`provider/model`) says; None for a provider elsewhere, and where it says nothing."""
    provider, _, name = model.partition("/")
    if provider == LOCAL:
        from harness.models.local import window_of_weights

        return window_of_weights(name)
    if provider not in PROVIDERS or not PROVIDERS[provider].is_own_server:
        return None
    try:
        url = endpoint_of(provider, name, environ).url
    except UsageError:
        return None
    if provider == _OLLAMA:
        return _of_ollama(url, name, environ)
    answer = answer_of(f"{url.rstrip('/')}/models")
    entries = answer.get("data") if isinstance(answer, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("id") == name:
            places = (entry, entry.get("meta"))
            values = (place.get(key) for place in places if isinstance(place, dict) for key in _KEYS)
            return next((value for value in values if _is_window(value)), None)
    return None


def is_own_server(model: str) -> bool:
    """Whether a server of the user's own is asked, by the name of the model (`provider/model`)."""
    provider = PROVIDERS.get(model.partition("/")[0])
    return provider is not None and provider.is_own_server


def served_tools(model: str, environ: Mapping[str, str]) -> bool | None:
    """Whether the server of that model passes tools on to it; None where it does not say, and for a provider elsewhere."""
    provider, _, name = model.partition("/")
    if not is_own_server(model):
        return None
    try:
        endpoint = endpoint_of(provider, name, environ)
    except UsageError:
        return None
    if provider != _OLLAMA:
        return server_knows_tools(endpoint.url, endpoint.key)
    parts = urlsplit(endpoint.url)
    reply = answer_of(f"{parts.scheme}://{parts.netloc}/api/show", {"model": name})
    able = reply.get("capabilities") if isinstance(reply, dict) else None
    return "tools" in able if isinstance(able, list) else None


def with_text_tools(model: Model, environ: Mapping[str, str]) -> Model:
    """The model, with tools in plain text where its server passes on none."""
    if served_tools(model.name, environ) is not False:
        return model
    from harness.models.text_tools import TextTools  # only here: nearly every server knows them

    return TextTools(model)


def require_room(model: str, window: int | None) -> None:
    """The small local model is let in, without tools. Raises UsageError for a window, as a server states it, in which the agent cannot work."""
    if window is not None and window < LEAST_FOR_AGENT and model != TOY:
        raise UsageError(
            f"{model} is served with a window of {window} tokens, and the agent needs {LEAST_FOR_AGENT} or more",
            hint="start the server with a larger one (Ollama: OLLAMA_CONTEXT_LENGTH=32768 ollama serve, or num_ctx in the "
            "Modelfile), or state the real one with --context-window",
        )


def _of_ollama(url: str, name: str, environ: Mapping[str, str]) -> int | None:
    parts = urlsplit(url)
    answer = answer_of(f"{parts.scheme}://{parts.netloc}/api/show", {"model": name})
    if not isinstance(answer, dict):
        return None
    parameters = answer.get("parameters")
    if isinstance(parameters, str) and (match := _NUM_CTX.search(parameters)):
        return int(match[1])
    info = answer.get("model_info")
    able: list[int] = [
        value
        for key, value in (info.items() if isinstance(info, dict) else ())
        if key.endswith(".context_length") and _is_window(value)
    ]
    usual = environ.get("OLLAMA_CONTEXT_LENGTH", "")
    served = int(usual) if usual.isdecimal() and int(usual) else _OLLAMA_USUAL
    return min([served, *able])


def _is_window(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
