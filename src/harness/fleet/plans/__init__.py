"""The plan of a fleet: tasks, variants, and the file that names them."""

from __future__ import annotations
