"""Runs agents beside a workspace, for a server elsewhere; needs the extra `server`."""

from __future__ import annotations
