"""Checks what is stored beside a log: it must be encodable, and secrets are masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from harness.errors import UsageError
from harness.events import Event
from harness.log.codec import UNENCODABLE, encode, plain_text, storable
from harness.log.redact.redactor import Redactor, redact_text
from harness.log.store import Metadata

Secrets: TypeAlias = Mapping[str, str] | None
"""By name; None: nothing is masked."""


def check_event(event: Event, problem: str) -> None:
    """Raises UsageError for an event that cannot be encoded."""
    try:
        encode(event)
    except UNENCODABLE as error:
        raise UsageError(f"{problem}: {error}", hint="nothing was changed; use what JSON can say") from error


def storable_settings(settings: dict[str, Any], secrets: Secrets) -> dict[str, Any]:
    """A copy as a store holds it. Raises UsageError for values that cannot be encoded."""
    try:
        line = _line(settings)
    except UNENCODABLE as error:
        raise UsageError(
            f"a thread's setting cannot be kept: {error}", hint="nothing was changed; use what JSON can say"
        ) from error
    if secrets is not None:
        redactor = Redactor(secrets)
        line = redactor.feed(line) + redactor.flush()
    copy: dict[str, Any] = msgspec.json.decode(line)
    return copy


def storable_text(text: str, secrets: Secrets) -> str:
    text = plain_text(text)
    return text if secrets is None else redact_text(text, secrets)


def mask(metadata: Metadata, secrets: Secrets) -> None:
    """Mask secrets in the name, the prompt and the settings."""
    metadata.name = storable_text(metadata.name, secrets)
    metadata.prompt = storable_text(metadata.prompt, secrets)
    metadata.settings = storable_settings(metadata.settings, secrets)


def _line(settings: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(settings) + b"\n"
    except UNENCODABLE:
        return msgspec.json.encode(storable(settings)) + b"\n"
