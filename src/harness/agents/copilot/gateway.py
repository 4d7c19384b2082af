"""Copilot beside the user's settings: a provider of its own by variables."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

POINTING = Pointing(
    wire="chat",
    provider="openai-chat",
    env={
        "COPILOT_PROVIDER_API_KEY": "{key}",
        "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
        "COPILOT_MODEL": "{model}",
    },
    model="",
    needs_model=True,
)
