"""Kilo Code behind the gateway: pointed at it as OpenCode is."""

from __future__ import annotations

from harness.protocols.opencode.pointing import pointing

POINTING = pointing("KILO_CONFIG_CONTENT")
