"""What more than one agent speaks: ACP, OpenCode's server, stream-json, JSON-RPC, and how stores are read."""

from __future__ import annotations
