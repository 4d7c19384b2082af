"""What tests need beyond `make setup`. A test that is skipped says what is missing and how to get it, in one wording for
all, and the end of a run counts the skips by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

HOW_TO_GET = {
    "assistant-stream (npm)": "run `npm install assistant-stream` in web/, or set ASSISTANT_STREAM_JS",
    "assistant-stream (Python)": ".venv/bin/pip install assistant-stream==0.0.36",
    "bubblewrap": "install the package bubblewrap",
    "Chromium": "install the package chromium",
    "Chromium, node or web/node_modules": "install chromium and Node.js, then run `npm install` in web/",
    "git": "install the package git",
    "landlock": "Linux 6.2 or newer with Landlock among its security modules",
    "namespaces": "Linux 5.12 or newer that lets ordinary users make user namespaces",
    "openssl": "install the package openssl",
    "package index": "connect this machine to one, or set PIP_INDEX_URL",
    "podman or busybox": "install the packages podman and busybox-static",
    "podman that can run containers": "see `podman info`",
    "Python for nobody": "install the system's Python, of the version of .venv, where every user may run it",
    "real agent": "install it with npm",
    "real Pi": "install Node.js and npm, which fetch it",
    "ripgrep": "install the package ripgrep",
    "root": "run the tests as root",
    "second Python of this version": "install one more, beside that of .venv",
    "wall of mounts": "Linux 5.12 with user namespaces, or the package bubblewrap",
    "wall": "Linux 5.12 with user namespaces, or the package bubblewrap, or Linux 6.2 with Landlock",
    "weights of the local model": "run `.venv/bin/harness models fetch local` (98 MB)",
}


def lacking(what: str, detail: str = "") -> str:
    """The reason of a skip."""
    return f"no {what}: {HOW_TO_GET[what]}{detail and f' ({detail})'}"


def lines_of(reasons: Iterable[str]) -> Iterator[str]:
    """The most frequent first."""
    for reason, number in Counter(reasons).most_common():
        yield f"{number:6} skipped: {reason}"
