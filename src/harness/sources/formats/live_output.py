"""Output of a running call that is told again and again: all of it so far, or its end alone."""

from __future__ import annotations

_OVERLAP = 200
"""How much of the end of earlier output is looked for in later output, to find where that goes on."""


def continuation(known: str, text: str) -> str:
    """What `text` adds to `known`: it repeats it from its beginning on, or only its end."""
    if text.startswith(known):
        return text[len(known) :]
    overlap = known[-_OVERLAP:]
    at = text.rfind(overlap)
    return text[at + len(overlap) :] if at >= 0 else text
