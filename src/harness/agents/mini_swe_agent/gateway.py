"""mini-SWE-agent beside the user's settings: variables, and a model with the prefix of an OpenAI server."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

POINTING = Pointing(
    wire="chat",
    provider="openai-chat",
    env={"OPENAI_API_BASE": "{url}/v1", "OPENAI_API_KEY": "{key}"},
    model="openai/{model}",
    needs_model=True,
)
