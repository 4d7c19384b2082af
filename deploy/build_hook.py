"""What the package says of itself and has beside it, where a release is made (`make dist`): addresses, a manual page, completions."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "HARNESS_REPOSITORY"
"""The variable with the address of the repository. It is in no file: a fork that is released names its own."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


class ReleaseFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Contract: a wheel that is built without them is the same wheel without them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        share = Path(self.root, "build", "share")
        for path in sorted(share.rglob("*")) if share.is_dir() else ():
            if path.is_file():
                build_data["shared_data"][str(path)] = f"share/{path.relative_to(share).as_posix()}"


class ReleaseAddresses(MetadataHookInterface):
    """Contract: with an address, what a registry shows of the package has links that lead there; without one, none."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        if address := self._address():
            metadata["urls"] = urls(address)
            text = with_whole_links(text, address)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

    def _address(self) -> str:
        """Given, or what the source package that this is built from was made with."""
        if given := os.environ.get(REPOSITORY, "").rstrip("/"):
            return given
        source = Path(self.root, "PKG-INFO")
        lines = source.read_text(encoding="utf-8").split("\n") if source.is_file() else []
        named = (
            line.removeprefix("Project-URL: Source, ")
            for line in lines
            if line.startswith("Project-URL: Source, ")
        )
        return next(named, "")


def urls(address: str) -> dict[str, str]:
    return {
        "Source": address,
        "Documentation": f"{address}/blob/HEAD/docs/README.md",
        "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


def with_whole_links(text: str, address: str) -> str:
    """Outside of the repository a link needs the address of it, and a picture that of the file itself."""

    def whole(found: re.Match[str]) -> str:
        kind = "raw" if found[1] else "blob"
        return f"{found[1]}[{found[2]}]({address}/{kind}/HEAD/{found[3]})"

    return LINK.sub(whole, text)
