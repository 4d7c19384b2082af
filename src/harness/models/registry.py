"""The available models: `provider/model`, the address of each provider, and what it needs.

A provider is a row of the table. Keys come from the environment and are used only in request headers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never
from urllib.parse import urlsplit

import msgspec

from harness.contracts.model import Model
from harness.errors import UsageError
from harness.models.failure import Retries
from harness.models.http import HttpModel, HttpTimeouts, ModelApi, ModelEndpoint, require_httpx

ModelWire: TypeAlias = Literal["anthropic", "responses", "gemini", "chat"]
"""The model APIs: each is the module of that name in `models/`."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    wire: ModelWire
    url: str
    keys: tuple[str, ...] = ()
    """Environment variables: the first that is set holds the key. Empty: no key is needed."""
    urls: tuple[str, ...] = ()
    """Environment variables: the first that is set replaces `url`, and a key is then optional."""
    habits: Mapping[str, Any] = {}
    """For Chat Completions servers: how they differ from the others."""
    usual_model: str = ""
    """The model used when none is named."""

    @property
    def is_own_server(self) -> bool:
        """A self-hosted server, on this machine by default."""
        return urlsplit(self.url).hostname == "localhost"


_WRITES_REASONING = {"wants_reasoning": True, "has_schemas": False, "effort": ""}
_NEW_LIMIT = {"limit_field": "max_completion_tokens"}

PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(
        title="Anthropic",
        wire="anthropic",
        url="https://api.anthropic.com",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        urls=("ANTHROPIC_BASE_URL",),
        usual_model="claude-sonnet-4-6",
    ),
    "openai": Provider(
        title="OpenAI",
        wire="responses",
        url="https://api.openai.com/v1",
        keys=("OPENAI_API_KEY",),
        urls=("OPENAI_BASE_URL",),
        usual_model="gpt-5.5",
    ),
    "openai-chat": Provider(
        title="OpenAI, or any compatible server at OPENAI_BASE_URL",
        wire="chat",
        url="https://api.openai.com/v1",
        keys=("OPENAI_API_KEY",),
        urls=("OPENAI_BASE_URL",),
        habits=_NEW_LIMIT,
    ),
    "gemini": Provider(
        title="Google Gemini",
        wire="gemini",
        url="https://generativelanguage.googleapis.com",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        urls=("GOOGLE_GEMINI_BASE_URL",),
        usual_model="gemini-2.5-pro",
    ),
    "openrouter": Provider(
        title="OpenRouter",
        wire="chat",
        url="https://openrouter.ai/api/v1",
        keys=("OPENROUTER_API_KEY",),
        habits={"effort": "reasoning"},
        usual_model="openrouter/auto",
    ),
    "groq": Provider(
        title="Groq",
        wire="chat",
        url="https://api.groq.com/openai/v1",
        keys=("GROQ_API_KEY",),
        habits=_NEW_LIMIT,
    ),
    "together": Provider(
        title="Together", wire="chat", url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)
    ),
    "fireworks": Provider(
        title="Fireworks",
        wire="chat",
        url="https://api.fireworks.ai/inference/v1",
        keys=("FIREWORKS_API_KEY",),
    ),
    "cerebras": Provider(
        title="Cerebras",
        wire="chat",
        url="https://api.cerebras.ai/v1",
        keys=("CEREBRAS_API_KEY",),
        habits=_NEW_LIMIT,
    ),
    "deepseek": Provider(
        title="DeepSeek",
        wire="chat",
        url="https://api.deepseek.com/v1",
        keys=("DEEPSEEK_API_KEY",),
        habits=_WRITES_REASONING,
    ),
    "xai": Provider(title="xAI", wire="chat", url="https://api.x.ai/v1", keys=("XAI_API_KEY",)),
    "mistral": Provider(
        title="Mistral",
        wire="chat",
        url="https://api.mistral.ai/v1",
        keys=("MISTRAL_API_KEY",),
        habits={"asks_usage": False, "effort": "", "call_id": "[a-zA-Z0-9]{9}", "call_id_length": 9},
    ),
    "moonshot": Provider(
        title="Moonshot",
        wire="chat",
        url="https://api.moonshot.ai/v1",
        keys=("MOONSHOT_API_KEY",),
        habits=_WRITES_REASONING,
    ),
    "zai": Provider(
        title="Z.ai",
        wire="chat",
        url="https://api.z.ai/api/paas/v4",
        keys=("ZAI_API_KEY",),
        habits=_WRITES_REASONING,
    ),
    "huggingface": Provider(
        title="Hugging Face", wire="chat", url="https://router.huggingface.co/v1", keys=("HF_TOKEN",)
    ),
    "ollama": Provider(title="Ollama", wire="chat", url="http://localhost:11434/v1", urls=("OLLAMA_HOST",)),
    "vllm": Provider(
        title="vLLM",
        wire="chat",
        url="http://localhost:8000/v1",
        keys=("VLLM_API_KEY",),
        urls=("VLLM_BASE_URL",),
    ),
    "llamacpp": Provider(
        title="llama.cpp",
        wire="chat",
        url="http://localhost:8080/v1",
        keys=("LLAMA_API_KEY",),
        urls=("LLAMA_BASE_URL",),
    ),
    "lmstudio": Provider(
        title="LM Studio", wire="chat", url="http://localhost:1234/v1", urls=("LMSTUDIO_BASE_URL",)
    ),
}
GATEWAY_URL, GATEWAY_KEY, GATEWAY_PROVIDER = (
    "HARNESS_MODELS_URL",
    "HARNESS_MODELS_KEY",
    "HARNESS_MODELS_PROVIDER",
)
"""Variables of a built-in agent behind a gateway: its address, the token of the run, and whose models it asks."""
LOCAL, SCRIPTED = "local", "scripted"
TOY = f"{LOCAL}/smollm2"
WHAT_IT_IS = (
    "local/smollm2 is a very small model (135 million parameters) for trying things out without a key: it talks, is often wrong, "
    "and has no tools. For work choose another one: `harness models list`, or local/PATH of a larger GGUF file"
)
"""Of `TOY`, which can talk but do no work."""
DEMO = f"{SCRIPTED}/demo"
"""A built-in script: its answers are scripted, its tool calls are real."""
_FAMILIES = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini", "gemini"),
    ("deepseek", "deepseek"),
    ("grok", "xai"),
    ("mistral", "mistral"),
    ("kimi", "moonshot"),
)
_KEY = re.compile(r"[\x21-\x7e]+")
_LISTENING_S = 0.3


class Usability(NamedTuple):
    provider: str
    title: str
    is_usable: bool
    reason: str
    """If it is not usable: what to do about it; else its address."""


def provider_names() -> list[str]:
    return [*PROVIDERS, LOCAL, SCRIPTED]


def open_model(
    name: str,
    environ: Mapping[str, str] | None = None,
    *,
    retries: Retries | None = None,
    timeouts: HttpTimeouts | None = None,
) -> Model:
    """The model of that name, such as `anthropic/claude-sonnet-4-6`, `local/NAME` or `scripted/FILE`.

    Args:
        name: `provider/model`.
        environ: Used in place of `os.environ`, for keys and addresses.
        retries: How often and how soon a request that failed is repeated.
        timeouts: How long to wait for the provider.

    Raises:
        UsageError: When it cannot be used here; the hint says what is missing.

    """
    environ = os.environ if environ is None else environ
    provider_name, slash, model = name.partition("/")
    if not slash or not model:
        raise UsageError(f"{name!r} is not the name of a model", hint=_naming(provider_name))
    if environ.get(GATEWAY_URL):
        return _behind_gateway(provider_name, model, environ, retries, timeouts)
    if provider_name == SCRIPTED:
        from harness.models.scripted import open_script

        return open_script(model)
    if provider_name == LOCAL:
        from harness.models.local import open_local

        return open_local(model)
    provider = PROVIDERS.get(provider_name)
    if provider is None:
        names = ", ".join(provider_names())
        raise UsageError(f"unknown provider: {provider_name}", hint=f"expected one of: {names}")
    require_httpx()
    endpoint, key_variable = _endpoint(provider_name, provider, model, environ)
    return HttpModel(endpoint, _wire(provider, endpoint, key_variable), retries=retries, timeouts=timeouts)


def _behind_gateway(
    name: str,
    model: str,
    environ: Mapping[str, str],
    retries: Retries | None,
    timeouts: HttpTimeouts | None,
) -> Model:
    """The gateway of a run stands for one provider, whatever that is: it alone knows the key. Raises UsageError."""
    only = environ.get(GATEWAY_PROVIDER, "")
    if name != only:
        raise UsageError(
            f"{name}/{model} cannot be asked in this run: its gateway asks {only} alone",
            hint=f"name models of {only} only, or run without a gateway",
        )
    require_httpx()
    provider = PROVIDERS.get(name) or Provider(title=name, wire="chat", url="")
    url = environ[GATEWAY_URL] + ("/v1" if provider.wire in ("chat", "responses") else "")
    endpoint = ModelEndpoint(provider=name, model=model, url=url, key=environ.get(GATEWAY_KEY, ""))
    return HttpModel(endpoint, _wire(provider, endpoint, ""), retries=retries, timeouts=timeouts)


def usable(environ: Mapping[str, str] | None = None) -> list[Usability]:
    """Every provider: whether it can be used here, or what is missing. Checks only this machine."""
    from harness.models.local import USUAL, trouble

    environ = os.environ if environ is None else environ
    rows = [_usability(name, provider, environ) for name, provider in PROVIDERS.items()]
    missing = trouble()
    rows.append(Usability(LOCAL, "A small model in this process", not missing, missing or f"local/{USUAL}"))
    rows.append(Usability(SCRIPTED, "What a file says", is_usable=True, reason="scripted/FILE"))
    return rows


def usual_model(environ: Mapping[str, str] | None = None) -> str:
    """The default model here: one with a key, else the local one, else empty."""
    from harness.models.local import USUAL, trouble

    environ = os.environ if environ is None else environ
    for name, provider in PROVIDERS.items():
        if provider.usual_model and any(environ.get(variable, "").strip() for variable in provider.keys):
            return f"{name}/{provider.usual_model}"
    return "" if trouble() else f"{LOCAL}/{USUAL}"


def any_model(environ: Mapping[str, str] | None = None) -> str:
    """The same, or else the demo, which works on any machine."""
    return usual_model(environ) or DEMO


def _naming(word: str) -> str:
    owner = next((provider for family, provider in _FAMILIES if word.lower().startswith(family)), "")
    example = f"{owner}/{word}" if owner else "anthropic/claude-sonnet-4-6"
    return f"write provider/model, as in {example}; `harness models list` shows the providers"


def endpoint_of(name: str, model: str, environ: Mapping[str, str]) -> ModelEndpoint:
    """Where a model of a known provider is asked. Raises UsageError where that is not set up."""
    return _endpoint(name, PROVIDERS[name], model, environ)[0]


def keyed_endpoint(name: str, model: str, environ: Mapping[str, str]) -> tuple[ModelEndpoint, str]:
    """The address and key of a provider, and the variable that holds the key. Raises UsageError when it has none."""
    return _endpoint(name, PROVIDERS[name], model, environ)


def key_headers(name: str, endpoint: ModelEndpoint, key_variable: str) -> tuple[tuple[str, str], ...]:
    """The headers by which a request says its key."""
    headers = _wire(PROVIDERS[name], endpoint, key_variable).headers()
    secret = ("authorization", "x-api-key", "x-goog-api-key")
    return tuple((header, value) for header, value in headers.items() if header in secret and endpoint.key)


def _endpoint(
    name: str, provider: Provider, model: str, environ: Mapping[str, str]
) -> tuple[ModelEndpoint, str]:
    url_variable = next((variable for variable in provider.urls if environ.get(variable, "").strip()), "")
    key_variable = next((variable for variable in provider.keys if environ.get(variable, "").strip()), "")
    url = _url(environ[url_variable].strip(), url_variable) if url_variable else provider.url
    key = environ[key_variable].strip() if key_variable else ""
    if not key and provider.keys and not url_variable and not provider.is_own_server:
        raise UsageError(f"{provider.title} needs a key", hint=f"set {' or '.join(provider.keys)}")
    if key and not _KEY.fullmatch(key):
        raise UsageError(
            f"{key_variable} does not hold a key: there are spaces or letters in it that no key has",
            hint="copy the key again",
        )
    return ModelEndpoint(provider=name, model=model, url=url, key=key), key_variable


def _url(text: str, variable: str) -> str:
    """Ollama's variable holds a host and optionally a port; the others hold a whole URL."""
    is_host = variable == "OLLAMA_HOST"
    try:
        parts = urlsplit(text if "://" in text or not is_host else f"http://{text}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{variable} is not a URL: {text}", hint="write it as http://host:port/v1")
    if not is_host:
        return parts.geturl()
    host = "127.0.0.1" if parts.hostname == "0.0.0.0" else parts.hostname  # noqa: S104
    return f"{parts.scheme}://{host}:{port or 11434}{parts.path.rstrip('/') or '/v1'}"


def _wire(provider: Provider, endpoint: ModelEndpoint, key_variable: str) -> ModelApi:
    match provider.wire:
        case "anthropic":
            from harness.models.anthropic import Anthropic

            return Anthropic(endpoint, is_token=key_variable.endswith("_TOKEN"))
        case "responses":
            from harness.models.responses import Responses

            return Responses(endpoint)
        case "gemini":
            from harness.models.gemini import Gemini

            return Gemini(endpoint)
        case "chat":
            from harness.models.chat import ChatCompletions, Habits

            return ChatCompletions(endpoint, msgspec.convert(dict(provider.habits), Habits))
        case _:
            assert_never(provider.wire)


def _usability(name: str, provider: Provider, environ: Mapping[str, str]) -> Usability:
    try:
        require_httpx()
        endpoint, _ = _endpoint(name, provider, "", environ)
    except UsageError as error:
        return Usability(name, provider.title, is_usable=False, reason=error.hint)
    if endpoint.is_here and not _listens(endpoint.url):
        return Usability(name, provider.title, is_usable=False, reason=f"nothing listens at {endpoint.place}")
    return Usability(name, provider.title, is_usable=True, reason=endpoint.place)


def _listens(url: str) -> bool:
    import socket

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=_LISTENING_S):
            return True
    except OSError:
        return False


# How many tokens a model can read at once, as far as its name shows.


USUAL = 128_000
"""The context window assumed for an unknown model."""

_WINDOWS: tuple[tuple[str, int], ...] = (
    (r"^local/", 8_192),  # what `models.local` opens it with
    (r"claude", 200_000),
    (r"gpt-5", 272_000),  # the input limit; the rest is for the answer
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4-(0613|32k)|gpt-4$", 8_000),
    (r"gpt-3\.5", 16_000),
    (r"\bo[134](-|$)", 200_000),
    (r"gemini", 1_000_000),
    (r"grok-(4|code)", 256_000),
    (r"kimi-k2", 256_000),
    (r"glm-(4\.[6-9]|5)", 200_000),
    (r"qwen3-coder", 256_000),
    (r"minimax-m", 200_000),
)
"""Patterns searched for in the model's name; the first match counts."""


@lru_cache(maxsize=256)  # asked by every run
def window_of(model: str) -> int:
    """`model`: `provider/model`, or whatever follows the provider."""
    return known_window(model) or USUAL


def known_window(model: str) -> int | None:
    """The same; None for a model of which nothing is known."""
    name = model.lower()
    return next((window for pattern, window in _WINDOWS if re.search(pattern, name)), None)
