"""Where logs can be kept; the file's name is the store's."""

from __future__ import annotations
