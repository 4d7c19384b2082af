"""What the model APIs stream, read into an `Answer`: one file per wire format."""

from __future__ import annotations
