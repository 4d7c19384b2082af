"""What translators are made of: formats that several agents share, and what one agent's own file has no room for."""

from __future__ import annotations
