"""Droid beside the user's settings: a model of its own in a file that a flag names."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

_SETTINGS = {
    "customModels": [
        {
            "model": "{model}",
            "displayName": "Harness",
            "baseUrl": "{url}/v1",
            "apiKey": "{key}",
            "provider": "generic-chat-completion-api",
            "maxOutputTokens": 32000,
        }
    ]
}

POINTING = Pointing(
    wire="chat",
    provider="openai-chat",
    env={"FACTORY_API_KEY": "fk-{key}"},
    args=("--settings", "{folder}/droid.json"),
    files={"droid.json": _SETTINGS},
    model="custom:Harness-0",
    needs_model=True,
)
