"""A text, written in the person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping

from harness.errors import UsageError


def edited(text: str, environ: Mapping[str, str]) -> str:
    """The text as it was left there. Raises UsageError when there is no editor, or it fails: nothing is lost then.

    Contract: called while the terminal belongs to the editor.
    """
    command = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        path = os.path.join(folder, "message.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            code = subprocess.call([*command, path])
        except OSError as error:
            raise UsageError(f"{command[0]} does not start: {error.strerror}", hint="set EDITOR") from error
        if code:
            raise UsageError(f"{command[0]} ended with {code}: the text is as it was")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
