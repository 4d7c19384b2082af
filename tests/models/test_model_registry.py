"""Names of models: who is asked, where, with which key, and what is said when that cannot be."""

from __future__ import annotations

import socket
from importlib import util
from typing import Any

import pytest

from harness.errors import MissingExtra, UsageError, how_to_install
from harness.models.registry import PROVIDERS, open_model, provider_names, usable, usual_model

KEY = "test-key-0123456789abcdef"


def wire_of(name: str, environ: dict[str, str]) -> Any:
    return open_model(name, environ)._wire  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "environ", "url", "header"),
    [
        ("anthropic/m", {"ANTHROPIC_API_KEY": KEY}, "https://api.anthropic.com/v1/messages", "x-api-key"),
        ("anthropic/m", {"ANTHROPIC_AUTH_TOKEN": KEY}, "https://api.anthropic.com/v1/messages", "authorization"),
        ("openai/m", {"OPENAI_API_KEY": KEY}, "https://api.openai.com/v1/responses", "authorization"),
        ("openai-chat/m", {"OPENAI_API_KEY": KEY}, "https://api.openai.com/v1/chat/completions", "authorization"),
        ("openrouter/a/b", {"OPENROUTER_API_KEY": KEY}, "https://openrouter.ai/api/v1/chat/completions", "authorization"),
        ("gemini/m", {"GOOGLE_API_KEY": KEY}, "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse", "x-goog-api-key"),
    ],
)  # fmt: skip
def test_a_provider_is_asked_where_it_is_with_its_key(name: str, environ: Any, url: str, header: str) -> None:
    wire = wire_of(name, environ)
    assert wire.url() == url
    assert KEY in wire.headers()[header]


@pytest.mark.parametrize(
    ("name", "environ", "url"),
    [
        ("openai-chat/m", {"OPENAI_BASE_URL": "http://gpu:8000/v1/"}, "http://gpu:8000/v1/chat/completions"),
        ("anthropic/m", {"ANTHROPIC_BASE_URL": "http://gpu/proxy/v1"}, "http://gpu/proxy/v1/messages"),
        ("ollama/llama3", {}, "http://localhost:11434/v1/chat/completions"),
        ("ollama/llama3", {"OLLAMA_HOST": "0.0.0.0:9"}, "http://127.0.0.1:9/v1/chat/completions"),
        ("ollama/llama3", {"OLLAMA_HOST": "https://gpu"}, "https://gpu:11434/v1/chat/completions"),
        ("vllm/m", {}, "http://localhost:8000/v1/chat/completions"),
        ("llamacpp/m", {"LLAMA_BASE_URL": "http://gpu:1/v1"}, "http://gpu:1/v1/chat/completions"),
    ],
)
def test_a_server_of_ones_own_needs_no_key(name: str, environ: Any, url: str) -> None:
    assert wire_of(name, environ).url() == url


@pytest.mark.parametrize(
    ("name", "environ", "emitted"),
    [
        ("anthropic/m", {}, "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
        ("openai/m", {"OPENAI_API_KEY": "  "}, "set OPENAI_API_KEY"),
        ("openai/m", {"OPENAI_API_KEY": "a b"}, "copy the key again"),
        ("openai/m", {"OPENAI_BASE_URL": "gpu:8000", "OPENAI_API_KEY": KEY}, "http://host:port/v1"),
        ("openai/m", {"OPENAI_BASE_URL": "http://[::", "OPENAI_API_KEY": KEY}, "http://host:port/v1"),
        ("nobody/m", {}, "expected one of: anthropic, openai"),
        ("claude-opus-4-6", {}, "as in anthropic/claude-opus-4-6"),
        ("anthropic/", {}, "provider/model"),
        ("", {}, "provider/model"),
        ("local/no-such-file.gguf", {}, "GGUF"),
    ],
)
def test_what_cannot_be_asked_says_what_to_do(name: str, environ: Any, emitted: str) -> None:
    with pytest.raises(UsageError) as raised:
        open_model(name, environ)
    assert emitted in raised.value.hint
    assert KEY not in str(raised.value) + raised.value.hint


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "httpx" else find_spec(name))
    with pytest.raises(MissingExtra) as raised:
        open_model("anthropic/m", {"ANTHROPIC_API_KEY": KEY})
    assert raised.value.hint == how_to_install("models")
    assert {row.reason for row in usable({}) if row.provider in PROVIDERS} == {how_to_install("models")}


def test_who_can_be_asked_is_reported_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        environ = {
            "GEMINI_API_KEY": KEY,
            "OLLAMA_HOST": f"127.0.0.1:{port}",
            "VLLM_BASE_URL": "http://127.0.0.1:1",
        }
        rows = {row.provider: row for row in usable(environ)}
    assert list(rows) == provider_names()
    assert rows["gemini"].is_usable
    assert rows["ollama"] == ("ollama", "Ollama", True, f"http://127.0.0.1:{port}")
    assert rows["vllm"].reason == "nothing listens at http://127.0.0.1:1"
    assert (rows["groq"].is_usable, rows["groq"].reason) == (False, "set GROQ_API_KEY")
    assert rows["scripted"].is_usable
    assert KEY not in repr(rows)


def test_the_usual_model_is_that_of_the_first_key() -> None:
    assert usual_model({"GEMINI_API_KEY": KEY, "OPENAI_API_KEY": KEY}).startswith("openai/")
    assert usual_model({"GROQ_API_KEY": KEY}) in ("", "local/smollm2")


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_can_be_opened_with_its_key(name: str) -> None:
    environ = dict.fromkeys(PROVIDERS[name].keys, KEY)
    assert open_model(f"{name}/some-model", environ).name == f"{name}/some-model"
