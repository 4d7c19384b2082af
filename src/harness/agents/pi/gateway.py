"""Pi beside the user's settings: an extension, named by a flag, that registers a provider."""

from __future__ import annotations

import json

from harness.contracts.pointing import Pointing

_MODEL = {
    "id": "{model}",
    "name": "{model}",
    "reasoning": False,
    "input": ["text", "image"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 200000,
    "maxTokens": 32000,
}
_PROVIDER = {"baseUrl": "{url}/v1", "apiKey": "{key}", "api": "openai-completions", "models": [_MODEL]}
_EXTENSION = f'export default function (pi) {{ pi.registerProvider("harness", {json.dumps(_PROVIDER)}); }}\n'

POINTING = Pointing(
    wire="chat",
    provider="openai-chat",
    args=("-e", "{folder}/harness.ts", "--provider", "harness"),
    files={"harness.ts": _EXTENSION},
    needs_model=True,
)
