"""Token counts with the keys of the Harness class: the whole prompt, the whole answer, and the sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from harness.events import Usage


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Tokens that were used: of the prompt, of the answer, and in all."""

    prompt_tokens: int = 0
    """Cached or not."""
    completion_tokens: int = 0
    """Reasoning included."""
    total_tokens: int = 0
    reasoning_tokens: int | UnsetType = UNSET
    cached_input_tokens: int | UnsetType = UNSET
    cache_creation_input_tokens: int | UnsetType = UNSET
    raw: Any = UNSET
    """The last usage data of the provider, unchanged."""

    def plus(self, more: TokenUsage) -> TokenUsage:
        """The sum of both; `raw` is that of `more` where it has one."""
        return TokenUsage(
            prompt_tokens=self.prompt_tokens + more.prompt_tokens,
            completion_tokens=self.completion_tokens + more.completion_tokens,
            total_tokens=self.total_tokens + more.total_tokens,
            reasoning_tokens=_sum(self.reasoning_tokens, more.reasoning_tokens),
            cached_input_tokens=_sum(self.cached_input_tokens, more.cached_input_tokens),
            cache_creation_input_tokens=_sum(
                self.cache_creation_input_tokens, more.cache_creation_input_tokens
            ),
            raw=self.raw if more.raw is UNSET else more.raw,
        )


NOTHING_USED = TokenUsage(cached_input_tokens=0, cache_creation_input_tokens=0)

_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens": ("promptTokens", "inputTokens", "prompt_tokens"),
    "completion_tokens": ("completionTokens", "outputTokens", "completion_tokens"),
    "total_tokens": ("totalTokens", "total_tokens"),
    "reasoning_tokens": ("reasoningTokens", "reasoning_tokens"),
    "cached_input_tokens": ("cachedInputTokens", "cached_input_tokens"),
    "cache_creation_input_tokens": ("cacheCreationInputTokens", "cache_creation_input_tokens"),
}


def token_usage(usage: Usage) -> TokenUsage:
    """What a log says was used."""
    prompt = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
    completion = (usage.output or 0) + (usage.reasoning or 0)
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        reasoning_tokens=_known(usage.reasoning),
        cached_input_tokens=_known(usage.cache_read),
        cache_creation_input_tokens=_known(usage.cache_write),
    )


def usage_of(source: TokenUsage | Mapping[str, Any]) -> Usage:
    """The inverse of `token_usage`; accepts either spelling of the keys."""
    counts = source if isinstance(source, TokenUsage) else read_usage(source)
    reasoning, cached = _plain(counts.reasoning_tokens), _plain(counts.cached_input_tokens)
    cache_write = _plain(counts.cache_creation_input_tokens)
    return Usage(
        input=max(0, counts.prompt_tokens - (cached or 0) - (cache_write or 0)),
        output=max(0, counts.completion_tokens - (reasoning or 0)),
        cache_read=cached,
        cache_write=cache_write,
        reasoning=reasoning,
    )


def read_usage(data: Any) -> TokenUsage:
    """From foreign data, in either spelling of the keys; numbers may be text. A given total is used as it is."""
    fields = data if isinstance(data, Mapping) else {}
    counts: dict[str, Any] = {}
    for name, spellings in _SPELLINGS.items():
        count = next((_count(fields[key]) for key in spellings if _count(fields.get(key)) is not None), None)
        if count is not None:
            counts[name] = count
    prompt, completion = counts.get("prompt_tokens", 0), counts.get("completion_tokens", 0)
    return TokenUsage(**{"total_tokens": prompt + completion, **counts}, raw=fields.get("raw", UNSET))


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return None


def _plain(count: int | UnsetType) -> int | None:
    return None if isinstance(count, UnsetType) else count


def _known(count: int | None) -> int | UnsetType:
    return UNSET if count is None else count


def _sum(first: int | UnsetType, right: int | UnsetType) -> int | UnsetType:
    if isinstance(first, UnsetType):
        return right
    return first if isinstance(right, UnsetType) else first + right
