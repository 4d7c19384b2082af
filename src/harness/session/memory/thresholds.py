"""When a memory acts: pure arithmetic on tokens.

Terms: *pending* is the number of message tokens not observed yet; a *chunk* holds observations of some of
these messages, made in advance; the *floor* is how much of the original messages should remain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

ABSOLUTE_ACTIVATION = 1_000
"""From this value on, an activation is the number of tokens to leave, not a share."""
_ABSOLUTE_BLOCK = 100
_LARGEST_OVERSHOOT = 0.95
"""Share of the floor: an activation that would remove more of it uses one chunk less."""
_FEWEST_LEFT = 1_000
_RAMP = 1.1
"""From this many intervals below the threshold on, buffering happens twice as often."""
_SLICE_TARGET = 0.75
_SMALLEST_EARLY = 0.75

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_SHORT_OPENAI = re.compile(r"gpt-4.*|gpt-5(\.[1-4])?(-.*)?")
_RETENTIONS_MS = {"24h": _HOUR_MS, "in_memory": 5 * _MINUTE_MS}
_IDLE_MS = (
    ("openrouter", 5 * _MINUTE_MS),
    ("google", 24 * _HOUR_MS),
    ("gemini", 24 * _HOUR_MS),
    ("deepseek", _HOUR_MS),
    ("groq", 2 * _HOUR_MS),
)
_USUAL_IDLE_MS = 5 * _MINUTE_MS


class ThresholdRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flexible threshold: `max` for both windows together, but never less than `min`."""

    min: int
    max: int


Threshold: TypeAlias = int | ThresholdRange


def maximum(threshold: Threshold) -> int:
    return threshold if isinstance(threshold, int) else threshold.max


def message_threshold(threshold: Threshold, observation_tokens: int) -> int:
    """With a range: the part of `max` that the observations leave free, but at least `min`."""
    if isinstance(threshold, int):
        return threshold
    return max(threshold.max - observation_tokens, threshold.min)


def buffer_interval(interval_given: float, threshold: Threshold) -> int:
    """The interval in tokens; a value below 1 is a share of the threshold."""
    return round(maximum(threshold) * interval_given) if 0 < interval_given < 1 else round(interval_given)


def block_after(block_given: float, threshold: Threshold) -> int:
    """The limit in tokens; a value below 100 is a multiple of the threshold."""
    return round(maximum(threshold) * block_given) if block_given < _ABSOLUTE_BLOCK else round(block_given)


def retention_floor(activation: float, threshold: int) -> float:
    """How many message tokens an activation should leave."""
    return activation if activation >= ABSOLUTE_ACTIVATION else threshold * (1 - activation)


def is_buffering_due(
    pending: int, last_boundary: int, interval: int, threshold: int, unbuffered: int
) -> bool:
    """Whether an interval was crossed since the last time, below the threshold, with enough new messages."""
    if pending >= threshold:
        return False
    step = interval / 2 if pending >= threshold - _RAMP * interval else float(interval)
    return pending // step > last_boundary // step and unbuffered >= step / 2


def chunks_to_activate(
    chunk_tokens: Sequence[int], pending: int, threshold: int, activation: float, block: int | None = None
) -> int:
    """How many chunks, oldest first, to activate so that about the floor is left."""
    if not chunk_tokens:
        return 0
    floor = retention_floor(activation, threshold)
    target = max(0.0, pending - floor)
    sums = _running_sums(chunk_tokens)
    over = next((count for count, tokens in enumerate(sums, 1) if tokens >= target), 0)
    under = (over or len(sums) + 1) - 1
    fewest_left = min(float(_FEWEST_LEFT), floor)

    def leaves_enough(count: int) -> bool:
        return pending - sums[count - 1] >= fewest_left

    is_pressing = block is not None and pending >= block
    if (
        over
        and leaves_enough(over)
        and (is_pressing or sums[over - 1] - target <= floor * _LARGEST_OVERSHOOT)
    ):
        return over
    if under and leaves_enough(under):
        return under
    return over or 1


def _running_sums(numbers: Sequence[int]) -> list[int]:
    total, sums = 0, []
    for number in numbers:
        total += number
        sums.append(total)
    return sums


def automatic_idle_ms(model: str, retention: str = "") -> int:
    """How long the provider of `provider/model` caches prompts."""
    provider, _, name = model.lower().partition("/")
    if "openai" in provider and "openrouter" not in provider:
        is_short = _SHORT_OPENAI.fullmatch(name) is not None
        return _RETENTIONS_MS.get(retention, _USUAL_IDLE_MS if is_short else _HOUR_MS)
    return next((idle for provider_known, idle in _IDLE_MS if provider_known in provider), _USUAL_IDLE_MS)


def reflection_slice(activation: float, threshold: int) -> int:
    """How many tokens of the oldest observations to reflect on in advance; also the size that triggers it."""
    return round(threshold * activation)


def slice_target(slice_tokens: int) -> int:
    """The size below which a reflection made in advance must stay."""
    return round(slice_tokens * _SLICE_TARGET)


def is_early_reflection_worthwhile(reflection: int, tail: int, threshold: int, activation: float) -> bool:
    """Below the threshold, a reflection is activated only if most of the notes remain."""
    usual = threshold * (1 - activation)
    return tail >= reflection and reflection + tail >= usual * _SMALLEST_EARLY


def compression_levels(model: str) -> range:
    """The compression level of each attempt, in order."""
    first = 2 if "gemini-2.5-flash" in model else 1
    return range(first, min(4, first + 3) + 1)
