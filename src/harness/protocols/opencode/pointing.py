"""Beside the user's settings: a provider of its own in a variable that is read after the files."""

from __future__ import annotations

import json

from harness.contracts.pointing import Pointing

_CONTENT = json.dumps(
    {
        "provider": {
            "harness": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Harness",
                "options": {"baseURL": "{url}/v1", "apiKey": "{key}"},
                "models": {"{model}": {"name": "{model}", "limit": {"context": 200000, "output": 32000}}},
            }
        },
        # Lists of the user, in which it is not: a provider that is not listed, or is left out, cannot be asked.
        "enabled_providers": ["harness"],
        "disabled_providers": [],
        "model": "harness/{model}",
        "small_model": "harness/{model}",
    }
)


def pointing(variable: str) -> Pointing:
    """`variable`: the one that has the settings."""
    return Pointing(
        wire="chat",
        provider="openai-chat",
        env={variable: _CONTENT},
        model="harness/{model}",
        needs_model=True,
    )
