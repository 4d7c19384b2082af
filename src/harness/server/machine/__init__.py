"""What the server knows of its machine: stores, histories, notices."""

from __future__ import annotations
