"""The recording that a request plays in place of an agent (`--recording`), and what lies beside it."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.contracts.request import Request
from harness.errors import UsageError


def with_prompt(request: Request, *, needs_prompt: bool) -> Request:
    """A recording has its own. Raises UsageError where there is none."""
    if request.recording:
        return _with_recording(request)
    if needs_prompt and not request.prompt.strip():
        raise UsageError("the prompt is empty", hint="give one with --prompt, --prompt-file or on stdin")
    return request


def _with_recording(request: Request) -> Request:
    """Take over who wrote it, and what it was asked. Raises UsageError."""
    path = os.path.abspath(request.recording)
    if not os.path.isfile(path):
        raise UsageError(
            f"there is no recording at {path}", hint="--recording takes a file of an agent's output"
        )
    meta = _meta_of(path)
    named = {name: text for name in ("agent", "prompt") if isinstance(text := meta.get(name), str)}
    return replace(
        request,
        recording=path,
        native=request.native or named.get("agent", ""),
        prompt=request.prompt or named.get("prompt", ""),
    )


def _meta_of(recording: str) -> dict[str, Any]:
    from harness.agents.replay.program import meta_text

    try:
        meta = msgspec.json.decode(meta_text(recording) or b"{}")
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}
