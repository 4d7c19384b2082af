"""A folder of alternatives is its own registry: the file's name is the name."""

from __future__ import annotations

import os
from types import ModuleType


def names_in(package: ModuleType) -> list[str]:
    """Without importing any."""
    return sorted(
        entry[:-3].replace("_", "-")
        for folder in package.__path__
        for entry in os.listdir(folder)
        if entry.endswith(".py") and not entry.startswith("_")
    )
