"""One working implementation of each service that a harness accepts."""

from __future__ import annotations
