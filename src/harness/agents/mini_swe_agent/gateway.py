"""mini-SWE-agent beside the user's settings: variables, and a model with the prefix of an OpenAI server."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

POINTING = Pointing(
    wire="chat",
    provider="openai-chat",
    env={
        "OPENAI_API_BASE": "{url}/v1",
        "OPENAI_API_KEY": "{key}",
        "MSWEA_CONFIGURED": "true",  # else it asks a person for a model and a key first
        "MSWEA_COST_TRACKING": "ignore_errors",  # the gateway knows what is used, whatever the model is called
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it looks for a newer list of prices, elsewhere
    },
    model="openai/{model}",
    needs_model=True,
)
