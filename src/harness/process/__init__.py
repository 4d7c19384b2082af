"""Programs: started, watched, fed and ended, with nothing left behind."""

from __future__ import annotations
