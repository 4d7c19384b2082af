"""OpenCode behind the gateway."""

from __future__ import annotations

from harness.protocols.opencode.pointing import pointing

POINTING = pointing("OPENCODE_CONFIG_CONTENT")
