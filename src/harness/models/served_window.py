"""How many tokens a server of your own really reads: it says so itself, and its default is often far below what the model can.

Ollama above all: unless `num_ctx` is set it reads 4,096 tokens, and cuts what is longer without a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from harness.errors import UsageError

LEAST_FOR_AGENT = 10_000
"""Tokens: with less there is no room for work beside the tools and the instructions."""
_OLLAMA = "ollama"
_OLLAMA_USUAL = 4_096
_TIMEOUT_S = 1.0
_MOST_BYTES = 4_000_000
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_KEYS = ("max_model_len", "context_length", "max_context_length", "n_ctx", "loaded_context_length")


def served_window(model: str, environ: Mapping[str, str]) -> int | None:
    """What the server of that model (`provider/model`) says; None for a provider elsewhere, and where it says nothing."""
    from harness.models.registry import PROVIDERS, endpoint_of

    provider, _, name = model.partition("/")
    if provider not in PROVIDERS or not PROVIDERS[provider].is_own_server:
        return None
    try:
        url = endpoint_of(provider, name, environ).url
    except UsageError:
        return None
    if provider == _OLLAMA:
        return _of_ollama(url, name, environ)
    listed = _asked(f"{url.rstrip('/')}/models")
    entries = listed.get("data") if isinstance(listed, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("id") == name:
            places = (entry, entry.get("meta"))
            found = (place.get(key) for place in places if isinstance(place, dict) for key in _KEYS)
            return next((value for value in found if _is_window(value)), None)
    return None


def require_room(model: str, window: int | None) -> None:
    """Raises UsageError for a window, as a server states it, in which the agent cannot work."""
    if window is not None and window < LEAST_FOR_AGENT:
        raise UsageError(
            f"{model} is served with a window of {window} tokens, and the agent needs {LEAST_FOR_AGENT} or more",
            hint="start the server with a larger one (Ollama: OLLAMA_CONTEXT_LENGTH=32768 ollama serve, or num_ctx in the "
            "Modelfile), or state the real one with --context-window",
        )


def _of_ollama(url: str, name: str, environ: Mapping[str, str]) -> int | None:
    parts = urlsplit(url)
    shown = _asked(f"{parts.scheme}://{parts.netloc}/api/show", {"model": name})
    if not isinstance(shown, dict):
        return None
    parameters = shown.get("parameters")
    if isinstance(parameters, str) and (found := _NUM_CTX.search(parameters)):
        return int(found[1])
    info = shown.get("model_info")
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


def _asked(url: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON that a server answers; None for anything else. Only servers of the user's own are asked."""
    data = json.dumps(body).encode() if body is not None else None
    request = Request(url, data=data, headers={"content-type": "application/json"})  # noqa: S310
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return json.loads(answer.read(_MOST_BYTES))
    except (URLError, OSError, ValueError, RecursionError):
        return None
