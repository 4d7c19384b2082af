"""The configuration of a memory: every setting with its default, read from data and validated up front.

A number may be relative or absolute: `buffer_tokens` below 1 is a share of `message_tokens`; `block_after`
below 100 is a multiple of its threshold; `buffer_activation` up to 1 is the share of the threshold that an
activation frees, and from 1000 on it is the number of tokens that an activation leaves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from harness.errors import UsageError
from harness.session.memory import thresholds
from harness.session.memory.thresholds import Threshold, ThresholdRange

__all__ = [
    "Memory",
    "MemoryConfig",
    "Observation",
    "Reflection",
    "Retrieval",
    "Threshold",
    "ThresholdRange",
    "config_of",
    "read_config",
]

DEFAULT_MODEL = "google/gemini-2.5-flash"
DEFAULT_BUFFER_TOKENS = 0.2
DEFAULT_REFLECTION_ACTIVATION = 0.5

Idle: TypeAlias = int | str | bool
"""Milliseconds, a duration such as `5m`, `auto` (by provider), or False."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class _Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class Observation(_Settings, frozen=True, kw_only=True):
    """When and how an observer model turns old messages into notes."""

    model: str = DEFAULT_MODEL
    message_tokens: Threshold = 30_000
    """When this many tokens are unobserved, messages become observations."""
    buffer_tokens: float | bool | None = None
    """The interval of observing in advance; None is 0.2 (in scope `thread`), False is never."""
    buffer_activation: float = 0.8
    block_after: float = 1.2
    buffer_on_idle: bool = False
    previous_observer_tokens: int | bool = 2_000
    """How many tokens of earlier observations the observer sees; 0 is none, False is all."""
    max_tokens_per_batch: int = 10_000
    """Several threads are observed in one call, up to this size."""
    thread_title: bool = False
    observe_attachments: bool | tuple[str, ...] = True
    """Which attachments are sent to the observer: all, none, or media types (`image/*`)."""
    instruction: str = ""
    temperature: float | None = 0.3
    max_output_tokens: int = 100_000
    activate_after_idle: Idle | None = None
    """None: use the setting of the whole memory."""
    activate_on_provider_change: bool | None = None


class Reflection(_Settings, frozen=True, kw_only=True):
    """When and how a reflector model condenses the notes."""

    model: str = DEFAULT_MODEL
    observation_tokens: Threshold = 40_000
    buffer_activation: float | bool | None = None
    """The share of the threshold at which a reflection is made in advance; None is 0.5, False is never."""
    block_after: float = 1.2
    instruction: str = ""
    temperature: float | None = 0.0
    max_output_tokens: int = 100_000
    activate_after_idle: Idle = False
    activate_on_provider_change: bool = False


class Retrieval(_Settings, frozen=True, kw_only=True):
    """The original messages can be looked up with the tool `recall`."""

    scope: Literal["thread", "resource"] = "resource"


class MemoryConfig(_Settings, frozen=True, kw_only=True):
    """The whole configuration of an observational memory; every setting has a default."""

    observation: Observation = Observation()
    reflection: Reflection = Reflection()
    activate_after_idle: Idle = False
    """For observations; reflections have their own setting."""
    activate_on_provider_change: bool = False
    scope: Literal["thread", "resource"] = "thread"
    share_token_budget: bool = False
    """Messages may use the tokens that the observations leave free."""
    temporal_markers: bool = False
    retrieval: bool | Retrieval = False
    timezone: str = ""
    """The time zone of dates and times in the notes; empty is that of the machine."""

    @property
    def message_threshold(self) -> Threshold:
        """From how many tokens of messages on they are observed."""
        own, total = self.observation.message_tokens, self.reflection.observation_tokens
        if self.share_token_budget and isinstance(own, int):
            return ThresholdRange(min=own, max=own + thresholds.maximum(total))
        return own

    @property
    def buffer_tokens(self) -> int | None:
        """The interval of buffering in tokens; None when nothing is buffered."""
        tokens_given = self.observation.buffer_tokens
        if tokens_given is False or (
            tokens_given is None and (self.scope == "resource" or self.share_token_budget)
        ):
            return None
        share = DEFAULT_BUFFER_TOKENS if tokens_given is None else float(tokens_given)
        return thresholds.buffer_interval(share, self.observation.message_tokens)

    @property
    def reflection_activation(self) -> float | None:
        """The share of the threshold at which reflections are buffered; None when they are not."""
        activation_given = self.reflection.buffer_activation
        if activation_given is False or self.buffer_tokens is None:
            return None
        return DEFAULT_REFLECTION_ACTIVATION if activation_given is None else float(activation_given)

    @property
    def observation_idle(self) -> Idle:
        """The pause after which observations become active; that of the whole memory by default."""
        own = self.observation.activate_after_idle
        return self.activate_after_idle if own is None else own

    @property
    def observation_on_provider_change(self) -> bool:
        """Whether a change of the provider makes observations active."""
        own = self.observation.activate_on_provider_change
        return self.activate_on_provider_change if own is None else own

    @property
    def recall_scope(self) -> Literal["", "thread", "resource"]:
        """Where `recall` may look; empty when there is no such tool."""
        if isinstance(self.retrieval, Retrieval):
            return self.retrieval.scope
        return Retrieval().scope if self.retrieval else ""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Lets the threads of a harness be cloned and forked; with `observational`, long ones are condensed."""

    observational: MemoryConfig | Mapping[str, Any] | bool | None = None
    """True: with the default thresholds. None: the model always sees the whole conversation."""


def config_of(memory: Memory | None) -> MemoryConfig | None:
    """The configuration of the observational memory; None: threads are not condensed."""
    if memory is None or memory.observational in (None, False):
        return None
    options = memory.observational
    return read_config(None if isinstance(options, bool) else options)


def read_config(options: MemoryConfig | Mapping[str, Any] | None = None) -> MemoryConfig:
    """The complete, validated configuration. Raises UsageError, naming the setting and its allowed values."""
    if isinstance(options, MemoryConfig):
        config = options
    else:
        try:
            config = msgspec.convert(dict(options or {}), MemoryConfig)
        except msgspec.ValidationError as error:
            raise UsageError(f"the configuration of the memory cannot be read: {error}") from None
    _check_observation(config)
    _check_reflection(config)
    _check_together(config)
    return config


def idle_ms(idle: Idle, model: str, retention: str = "") -> int | None:
    """The pause after which the provider's cache is assumed to have expired; None is never."""
    if idle == "auto":
        return thresholds.automatic_idle_ms(model, retention)
    if isinstance(idle, bool):
        return None
    return idle if isinstance(idle, int) else _duration_ms(idle)


def _duration_ms(text: str) -> int | None:
    match = _DURATION.fullmatch(text.strip())
    return round(float(match[1]) * _UNIT_MS[match[2]]) if match else None


def _refuse(setting: str, value: object, expectation: str) -> None:
    raise UsageError(f"{setting} of the memory is {value!r}, but {expectation}")


def _check_observation(config: MemoryConfig) -> None:
    own = config.observation
    smallest = _check_threshold("observation.messageTokens", own.message_tokens)
    if own.buffer_tokens is True:
        _refuse("observation.bufferTokens", True, "it is a number, or false to buffer nothing")
    if own.buffer_tokens is not None and own.buffer_tokens is not False and own.buffer_tokens <= 0:
        _refuse("observation.bufferTokens", own.buffer_tokens, "it must be above 0, or false")
    interval = config.buffer_tokens
    if interval is not None and interval >= smallest:
        _refuse("observation.bufferTokens", own.buffer_tokens, f"it must be below messageTokens ({smallest})")
    activation = own.buffer_activation
    if activation <= 0:
        _refuse("observation.bufferActivation", activation, "it must be above 0")
    if 1 < activation < thresholds.ABSOLUTE_ACTIVATION:
        _refuse("observation.bufferActivation", activation, "it is a share up to 1, or tokens from 1000 on")
    if activation >= thresholds.ABSOLUTE_ACTIVATION and activation >= smallest:
        expectation = f"tokens to keep must be below messageTokens ({smallest})"
        _refuse("observation.bufferActivation", activation, expectation)
    _check_block("observation.blockAfter", own.block_after, own.message_tokens)
    if own.previous_observer_tokens is True or own.previous_observer_tokens < 0:
        expectation = "it is a number of tokens, 0 for none, or false for no limit"
        _refuse("observation.previousObserverTokens", own.previous_observer_tokens, expectation)
    for name, number in (
        ("maxTokensPerBatch", own.max_tokens_per_batch),
        ("maxOutputTokens", own.max_output_tokens),
    ):
        if number <= 0:
            _refuse(f"observation.{name}", number, "it must be above 0")


def _check_reflection(config: MemoryConfig) -> None:
    own = config.reflection
    _check_threshold("reflection.observationTokens", own.observation_tokens)
    activation = own.buffer_activation
    is_share = activation is not None and activation is not True and 0 < activation <= 1
    if activation is not None and activation is not False and not is_share:
        _refuse("reflection.bufferActivation", activation, "it is a share above 0 and up to 1, or false")
    _check_block("reflection.blockAfter", own.block_after, own.observation_tokens)
    if own.max_output_tokens <= 0:
        _refuse("reflection.maxOutputTokens", own.max_output_tokens, "it must be above 0")


def _check_together(config: MemoryConfig) -> None:
    tokens_given = config.observation.buffer_tokens
    if config.share_token_budget and tokens_given is not False:
        expectation = "it needs observation.bufferTokens = false: what is buffered beforehand has no share"
        _refuse("shareTokenBudget", True, expectation)
    if config.share_token_budget and isinstance(config.observation.message_tokens, ThresholdRange):
        _refuse("shareTokenBudget", True, "observation.messageTokens is a range already")
    if config.scope == "resource" and tokens_given not in (None, False):
        expectation = "a memory of scope `resource` buffers nothing: leave it out"
        _refuse("observation.bufferTokens", tokens_given, expectation)
    if config.observation.buffer_on_idle and config.buffer_tokens is None:
        _refuse("observation.bufferOnIdle", True, "nothing is buffered in this configuration")
    for name, idle in (
        ("activateAfterIdle", config.activate_after_idle),
        ("observation.activateAfterIdle", config.observation.activate_after_idle),
        ("reflection.activateAfterIdle", config.reflection.activate_after_idle),
    ):
        if idle is not None and not _is_idle(idle):
            _refuse(name, idle, "it is milliseconds, a duration such as '5m', 'auto', or false")
    if config.timezone:
        _check_timezone(config.timezone)


def _is_idle(idle: Idle) -> bool:
    if isinstance(idle, bool):
        return not idle
    if isinstance(idle, int):
        return idle >= 0
    return idle == "auto" or _duration_ms(idle) is not None


def _check_threshold(setting: str, threshold: Threshold) -> int:
    smallest = threshold if isinstance(threshold, int) else threshold.min
    if smallest <= 0:
        _refuse(setting, smallest, "it must be above 0")
    if isinstance(threshold, ThresholdRange) and threshold.max < threshold.min:
        _refuse(
            setting, f"{threshold.min} to {threshold.max}", "the end of a range is not below its beginning"
        )
    return smallest


def _check_block(setting: str, block: float, threshold: Threshold) -> None:
    limit = thresholds.block_after(block, threshold)
    if limit < thresholds.maximum(threshold):
        expectation = f"it must not be below the threshold ({thresholds.maximum(threshold)}): a factor from 1 on, or tokens"
        _refuse(setting, block, expectation)


def _check_timezone(name: str) -> None:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        _refuse("timezone", name, "it is a name such as 'Europe/Berlin', or empty")
