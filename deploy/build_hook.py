"""Adds the manual page and the completions to a wheel, if `deploy/release.py` has made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ReleaseFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Contract: a wheel that is built without them is the same wheel without them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        share = Path(self.root, "build", "share")
        for path in sorted(share.rglob("*")) if share.is_dir() else ():
            if path.is_file():
                build_data["shared_data"][str(path)] = f"share/{path.relative_to(share).as_posix()}"
