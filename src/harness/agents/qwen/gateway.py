"""Qwen Code beside the user's settings: variables, and the way of signing in as a flag."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

POINTING = Pointing(
    wire="chat",
    provider="openai-chat",
    env={"OPENAI_API_KEY": "{key}", "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "{model}"},
    args=("--auth-type", "openai"),
    needs_model=True,
    result_noise=(r"Process Group PGID: \d+", r"Background PIDs: [\d, ]+"),
)
