"""Goose beside the user's settings: variables, which it believes more than its file."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

POINTING = Pointing(
    wire="chat",
    provider="openai-chat",
    env={
        "GOOSE_PROVIDER": "openai",
        "GOOSE_DISABLE_KEYRING": "1",
        "OPENAI_API_KEY": "{key}",
        "OPENAI_HOST": "{url}",
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "GOOSE_MODEL": "{model}",
    },
    model="",
    needs_model=True,
    unset=("OPENAI_BASE_URL", "GOOSE_PLANNER_PROVIDER"),
)
