"""Claude Code beside the user's settings: two variables, which it believes more than its files."""

from __future__ import annotations

from harness.contracts.pointing import LoginPointing, Pointing

POINTING = Pointing(
    wire="anthropic",
    provider="anthropic",
    env={"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "{key}"},
    result_noise=(r"agentId: \w+", r"duration_ms: \d+", r"to: .\w{17}."),
    login=LoginPointing(
        host="https://api.anthropic.com",
        env={"ANTHROPIC_BASE_URL": "{url}"},
        keeps=("CLAUDE_CODE_OAUTH_TOKEN",),
    ),
    unset=(
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "ANTHROPIC_CUSTOM_HEADERS",
    ),
)
