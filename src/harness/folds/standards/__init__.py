"""A log in the words of other standards: AG-UI, ACP, OpenTelemetry, and what they share."""

from __future__ import annotations
