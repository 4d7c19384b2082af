"""How programs and people reach Harness: command line, server, client, runner. They only move bytes."""

from __future__ import annotations
