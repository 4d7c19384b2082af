"""What translators are made of: formats that several agents share."""

from __future__ import annotations
