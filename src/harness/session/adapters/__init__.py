"""One real thing for each service that a harness may be given."""

from __future__ import annotations
