"""How a model is to answer, from the request of a run to the request of its API."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from model_asking import KEY
from model_far_side import FarSide, stream

ANSWER = stream(
    {"type": "message_start", "message": {"id": "m", "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi."}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
    {"type": "message_stop"},
)


def test_effort_temperature_and_length_reach_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with FarSide(ANSWER) as far_side:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", far_side.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        request = harness.Request(
            agent="native",
            prompt="go",
            model="anthropic/claude-opus-4-8",
            cwd=str(tmp_path),
            effort="high",
            temperature=0.5,
            max_output_tokens=4000,
        )
        assert harness.start(request, store=harness.MemoryStore()).wait().success
        [body] = far_side.requests
    assert body["output_config"]["effort"] == "high"
    assert body["thinking"]
    assert body["max_tokens"] == 4000
