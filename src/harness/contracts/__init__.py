"""What the parts promise each other: an agent, its driver, its history, a model, a tool, a request. No part of it runs anything."""

from __future__ import annotations
