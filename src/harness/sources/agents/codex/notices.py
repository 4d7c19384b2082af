"""What Codex shows on stderr, in either of its vocabularies: calls that it refused, above all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.events import Event, Warning

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_STDIN_NOTICE = re.compile(r"Reading (?:additional input|prompt) from stdin\.\.\.")
_REFUSED_CALL = re.compile(r"\S* *ERROR \S*tools::router: error=(.*)")


def stderr_events(line: str) -> tuple[str, Sequence[Event]]:
    """The rule that takes a line, and its events."""
    line = _ESCAPES.sub("", line).strip()
    if not line or _STDIN_NOTICE.fullmatch(line):
        return "stdin notice" if line else "blank", ()
    refused = _REFUSED_CALL.fullmatch(line)
    if refused is not None:
        return "refused call", [Warning(message=refused[1], code="tool_error")]
    return "stderr", [Warning(message=line, code="stderr")]
