"""Codex beside the user's settings: a provider of its own by `-c`, over HTTP and not over a websocket."""

from __future__ import annotations

from harness.contracts.pointing import LoginPointing, Pointing

_PROVIDER = (
    'model_providers.harness={name="Harness",base_url="{url}/v1",env_key="HARNESS_GATEWAY_KEY",'
    'wire_api="responses",supports_websockets=false}'
)
_WITH_LOGIN = (
    'model_providers.harness={name="Harness",base_url="{url}/v1",requires_openai_auth=true,'
    'wire_api="responses",supports_websockets=false}'
)

POINTING = Pointing(
    wire="responses",
    provider="openai",
    env={"HARNESS_GATEWAY_KEY": "{key}"},
    args=("-c", 'model_provider="harness"', "-c", _PROVIDER),
    result_noise=(
        r"Chunk ID: \w+",
        r"Wall time: [\d.]+ seconds",
        r"\b0\.\d{3,} seconds",
        r"nickname[^\w]+\w+",
        r"Original token count: \d+",
    ),
    # Its bubblewrap asks a Unix socket for the name of a device, which a seal refuses, and the command fails.
    sealed_args=("-c", "features.use_legacy_landlock=true"),
    login=LoginPointing(
        host="https://chatgpt.com/backend-api/codex",
        args=("-c", 'model_provider="harness"', "-c", _WITH_LOGIN),
    ),
    unset=("CODEX_API_KEY", "OPENAI_BASE_URL"),
)
