"""What a server of your own says it reads is what counts; too little for the agent is refused before anything is cut."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.models.registry import window_of
from harness.models.served_window import require_room, served_tools, served_window


@pytest.fixture
def answers() -> Iterator[tuple[str, dict[str, Any]]]:
    """The address of a server, and what it answers by path."""
    said: dict[str, Any] = {}

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = said.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, *_words: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}", said
    server.shutdown()
    server.server_close()
    thread.join()


def test_ollama_reads_what_its_model_file_its_environment_or_its_default_says(
    answers: tuple[str, dict[str, Any]],
) -> None:
    host, said = answers
    environ = {"OLLAMA_HOST": host}
    info = {"model_info": {"qwen3.context_length": 262_144}}
    said["/api/show"] = info
    assert served_window("ollama/qwen3", environ) == 4_096
    assert served_window("ollama/qwen3", {**environ, "OLLAMA_CONTEXT_LENGTH": "65536"}) == 65_536
    said["/api/show"] = {**info, "parameters": 'stop "x"\nnum_ctx                        32768\n'}
    assert served_window("ollama/qwen3", environ) == 32_768
    for odd in (b"no json", b"[]", b"null", b"{"):
        said["/api/show"] = odd
        assert served_window("ollama/qwen3", environ) is None
    assert served_window("ollama/qwen3", {"OLLAMA_HOST": "127.0.0.1:1"}) is None


def test_other_servers_say_it_in_their_list_of_models(answers: tuple[str, dict[str, Any]]) -> None:
    host, said = answers
    from harness.models.registry import PROVIDERS

    provider = PROVIDERS["vllm"]
    environ = {provider.urls[0]: f"http://{host}/v1"}
    said["/v1/models"] = {"data": [{"id": "other"}, {"id": "coder", "max_model_len": 40_960}]}
    assert served_window("vllm/coder", environ) == 40_960
    assert served_window("vllm/unknown", environ) is None
    said["/v1/models"] = {"data": [{"id": "coder", "meta": {"n_ctx": 16_384}}]}
    assert served_window("vllm/coder", environ) == 16_384


def test_a_provider_elsewhere_is_not_asked() -> None:
    assert served_window("anthropic/claude-opus-5-5", {"ANTHROPIC_API_KEY": "k"}) is None
    assert served_window("scripted/x", {}) is None


def test_too_little_for_the_agent_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="4096 tokens") as caught:
        require_room("ollama/qwen3", 4_096)
    assert "OLLAMA_CONTEXT_LENGTH" in caught.value.hint
    require_room("ollama/qwen3", 32_768)
    require_room("ollama/qwen3", None)


def test_the_small_local_model_is_known_to_read_little() -> None:
    assert window_of("local/smollm2") == 8_192


def test_a_server_says_whether_it_passes_tools_on(answers: tuple[str, dict[str, Any]]) -> None:
    host, said = answers
    environ = {"OLLAMA_HOST": host, "LLAMA_BASE_URL": f"http://{host}/v1"}
    assert served_tools("ollama/old", environ) is None
    said["/api/show"] = {"capabilities": ["completion"]}
    assert served_tools("ollama/old", environ) is False
    said["/api/show"] = {"capabilities": ["completion", "tools"]}
    assert served_tools("ollama/new", environ) is True
    assert served_tools("llamacpp/x", environ) is None
    for able in (True, False):
        said["/props"] = {"chat_template_caps": {"supports_tools": able}}
        assert served_tools("llamacpp/x", environ) is able
    assert served_tools("anthropic/claude-sonnet-4-6", environ) is None


def test_weights_say_what_they_were_trained_for(tmp_path: Path) -> None:
    path = tmp_path / "own.gguf"
    for stated, window in ((40_960, 32_768), (16_384, 16_384)):
        path.write_bytes(b"GGUF qwen2.context_length\x04\0\0\0" + stated.to_bytes(4, "little") + b"rest")
        assert served_window(f"local/{path}", {}) == window
    path.write_bytes(b"GGUF")
    assert served_window(f"local/{path}", {}) == 8_192


def test_the_small_local_model_is_let_in_and_others_of_its_window_are_not() -> None:
    require_room("local/smollm2", served_window("local/smollm2", {}))
    with pytest.raises(UsageError):
        require_room("local/own.gguf", 8_192)
