"""Harness as a server of the Model Context Protocol: agents call other agents, and find past work."""

from __future__ import annotations
