"""Conversations over HTTP and WebSocket; needs the extra `server`."""

from __future__ import annotations
