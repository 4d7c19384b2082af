"""Kimi Code beside the user's settings: a model of its own by variables."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

POINTING = Pointing(
    wire="chat",
    provider="moonshot",
    env={
        "KIMI_MODEL_API_KEY": "{key}",
        "KIMI_MODEL_BASE_URL": "{url}/v1",
        "KIMI_MODEL_NAME": "{model}",
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
    },
    model="",
    needs_model=True,
    result_noise=(r"Chunk ID: \w+", r"Wall time: [\d.]+ seconds", r"\b0\.\d{3,} seconds"),
)
