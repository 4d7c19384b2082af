"""Text of agents inside Markdown, so that it ends where it should."""

from __future__ import annotations

import re

_BACKTICKS = re.compile("`+")
_FENCE_LINE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    body = text if text.endswith("\n") or not text else text + "\n"
    return f"{fence}{language}\n{body}{fence}"


def code_span(text: str) -> str:
    ticks = "`" * (_longest_run(text) + 1)
    padding = " " if "`" in text else ""
    return f"{ticks}{padding}{text}{padding}{ticks}" if text else ""


def closed(text: str) -> str:
    """The same Markdown with a code block that was left open closed, so that it swallows nothing after it."""
    open_fence = ""
    for line in text.split("\n"):
        match = _FENCE_LINE.fullmatch(line)
        if match is None:
            continue
        fence, info = match.groups()
        if not open_fence:
            is_opening = fence[0] == "~" or "`" not in info
            open_fence = fence if is_opening else ""
        elif fence.startswith(open_fence) and not info.strip():
            open_fence = ""
    if not open_fence:
        return text
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}{open_fence}"


def quoted(text: str, depth: int) -> str:
    """A block quote, `depth` levels deep."""
    if not depth:
        return text
    prefix = ">" + " >" * (depth - 1)
    return "\n".join(f"{prefix} {line}" if line else prefix for line in text.split("\n"))


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)
