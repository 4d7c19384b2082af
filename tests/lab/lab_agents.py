"""A real agent to try the lab on: Pi, which is pure JavaScript, installed once into a cache outside the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.config import cache_directory

PACKAGES = (
    ((22, 19), "@earendil-works/pi-coding-agent", "0.87.1"),
    ((20, 6), "@mariozechner/pi-coding-agent", "0.73.1"),
)
"""The oldest Node that runs it, package, version. The first that fits is taken."""
INSTALL_S = 240


class NotThere(Exception):
    """Why there is no agent to try."""


def pi() -> tuple[str, str]:
    """The program and its version; installs it when it is not yet in the cache. Raises NotThere."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotThere(f"{'node' if node is None else 'npm'} is not installed")
    output = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    installed = tuple(int(number) for number in re.findall(r"\d+", output))
    for oldest, package, version in PACKAGES:
        if installed >= oldest:
            return str(_installed(npm, package, version)), version
    raise NotThere(f"Node is too old for Pi: {output.strip() or 'no version'}")


def _installed(npm: str, package: str, version: str) -> Path:
    cache = Path(os.environ.get("HARNESS_AGENT_CACHE") or Path(cache_directory(), "agents"))
    folder = cache / f"pi-{version}"
    program = folder / "node_modules" / ".bin" / "pi"
    if program.exists():
        return program
    try:
        cache.mkdir(parents=True, exist_ok=True)
        trial = Path(tempfile.mkdtemp(prefix=f".pi-{version}-", dir=cache))
    except OSError as error:
        raise NotThere(f"the cache {cache} cannot be written: {error.strerror}") from error
    try:
        # A folder with a package.json of its own, or npm looks for one further up.
        (trial / "package.json").write_text('{"private": true}\n')
        words = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
        words.append(f"{package}@{version}")
        done = subprocess.run(
            words, cwd=trial, capture_output=True, text=True, check=False, timeout=INSTALL_S
        )
        if done.returncode != 0:
            last = [line for line in done.stderr.split("\n") if "ERR" in line or "error" in line]
            raise NotThere(
                f"npm could not install {package}@{version}: {(last or ['no reason given'])[0].strip()}"
            )
        try:
            trial.rename(folder)
        except OSError as error:
            if not program.exists():  # unless another process was faster
                raise NotThere(f"{folder} cannot be written: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise NotThere(f"npm took longer than {INSTALL_S} s to install {package}@{version}") from None
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return program
