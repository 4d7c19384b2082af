"""What tests need beyond `make setup`. A test that is skipped says what is missing and how to get it, in one wording for
all, and the end of a run counts the skips by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

HOW_TO_GET = {
    "assistant-stream (npm)": "run `make tools`",
    "assistant-stream (Python)": "run `make tools`",
    "bubblewrap": "run `make tools`, or install the package bubblewrap",
    "Chromium that prints a page": "install the package chromium",
    "Chromium, node or web/node_modules": "run `make tools`",
    "FastAPI": "run `make tools`",
    "git": "install the package git",
    "landlock": "Linux 6.2 or newer with Landlock among its security modules",
    "namespaces": "Linux 5.12 or newer that lets ordinary users make user namespaces",
    "nginx": "install the package nginx-light",
    "Node.js": "run `make tools`",
    "npm packages": "run `make tools`",
    "openssl": "install the package openssl",
    "package index": "connect this machine to one, or set PIP_INDEX_URL",
    "podman or busybox": "install the packages podman and busybox-static",
    "podman that can run containers": "see `podman info`",
    "Python for nobody": "install the system's Python, of the version of .venv, where every user may run it",
    "real agent": "install it with npm",
    "real Pi": "run `make tools`: npm fetches it",
    "ripgrep": "run `make tools`, or install the package ripgrep",
    "root": "run the tests as root",
    "second Python of this version": "install one more, beside that of .venv",
    "systemd-analyze": "install the package systemd",
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
