"""The configuration of a memory: defaults, shares and amounts, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.session.memory import MemoryConfig, ThresholdRange, read_config
from harness.session.memory.config import idle_ms


def test_the_defaults_are_those_of_the_specification() -> None:
    config = read_config()
    observation, reflection = config.observation, config.reflection
    assert (observation.message_tokens, config.buffer_tokens, observation.buffer_activation) == (
        30_000,
        6_000,
        0.8,
    )
    assert (observation.block_after, observation.previous_observer_tokens) == (1.2, 2_000)
    assert (observation.max_tokens_per_batch, observation.temperature, observation.max_output_tokens) == (
        10_000,
        0.3,
        100_000,
    )
    assert (reflection.observation_tokens, config.reflection_activation, reflection.block_after) == (
        40_000,
        0.5,
        1.2,
    )
    assert (reflection.temperature, reflection.model, observation.model) == (
        0.0,
        "google/gemini-2.5-flash",
        "google/gemini-2.5-flash",
    )
    assert not any((observation.buffer_on_idle, observation.thread_title, config.temporal_markers))
    assert (config.scope, config.recall_scope) == ("thread", "")


def test_a_configuration_is_read_from_data() -> None:
    config = read_config({"observation": {"messageTokens": {"min": 10, "max": 50}, "bufferTokens": False}})
    assert config.observation.message_tokens == ThresholdRange(min=10, max=50)
    assert config.buffer_tokens is None
    assert config.reflection_activation is None  # without buffering nothing is made beforehand


def test_a_shared_budget_gives_messages_what_observations_do_not_need() -> None:
    config = read_config({"shareTokenBudget": True, "observation": {"bufferTokens": False}})
    assert config.message_threshold == ThresholdRange(min=30_000, max=70_000)


def test_the_memory_of_a_resource_buffers_nothing() -> None:
    config = read_config({"scope": "resource"})
    assert (config.buffer_tokens, config.reflection_activation) == (None, None)


def test_reflections_have_to_opt_in_to_early_activation() -> None:
    config = read_config({"activateAfterIdle": "5m", "activateOnProviderChange": True})
    assert (config.observation_idle, config.observation_on_provider_change) == ("5m", True)
    assert (config.reflection.activate_after_idle, config.reflection.activate_on_provider_change) == (
        False,
        False,
    )
    config = read_config({"activateAfterIdle": "5m", "observation": {"activateAfterIdle": 7}})
    assert config.observation_idle == 7


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (False, None),
        (300_000, 300_000),
        ("5m", 300_000),
        ("1.5h", 5_400_000),
        ("250ms", 250),
        ("auto", 86_400_000),
    ],
)
def test_a_pause_is_reported_in_several_ways(given: Any, expected: int | None) -> None:
    assert idle_ms(given, "google/gemini") == expected


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"observation": {"bufferTokens": 30_000}}, "bufferTokens"),
        ({"observation": {"bufferTokens": True}}, "bufferTokens"),
        ({"observation": {"bufferTokens": 0}}, "bufferTokens"),
        ({"observation": {"bufferTokens": -1}}, "bufferTokens"),
        ({"observation": {"bufferActivation": 1.5}}, "bufferActivation"),
        ({"observation": {"bufferActivation": 999}}, "bufferActivation"),
        ({"observation": {"bufferActivation": 0}}, "bufferActivation"),
        ({"observation": {"bufferActivation": 30_000}}, "bufferActivation"),
        ({"observation": {"blockAfter": 0.9}}, "blockAfter"),
        ({"observation": {"blockAfter": 29_999}}, "blockAfter"),
        ({"observation": {"messageTokens": 0}}, "messageTokens"),
        ({"observation": {"messageTokens": {"min": 50, "max": 10}}}, "messageTokens"),
        ({"observation": {"previousObserverTokens": -1}}, "previousObserverTokens"),
        ({"observation": {"previousObserverTokens": True}}, "previousObserverTokens"),
        ({"observation": {"maxTokensPerBatch": 0}}, "maxTokensPerBatch"),
        ({"observation": {"bufferOnIdle": True, "bufferTokens": False}}, "bufferOnIdle"),
        ({"reflection": {"observationTokens": -5}}, "observationTokens"),
        ({"reflection": {"bufferActivation": 1.1}}, "bufferActivation"),
        ({"reflection": {"bufferActivation": True}}, "bufferActivation"),
        ({"reflection": {"bufferActivation": 0}}, "bufferActivation"),
        ({"reflection": {"blockAfter": 100}}, "blockAfter"),
        ({"shareTokenBudget": True}, "shareTokenBudget"),
        ({"scope": "resource", "observation": {"bufferTokens": 0.2}}, "bufferTokens"),
        ({"scope": "planet"}, "scope"),
        ({"activateAfterIdle": "soon"}, "activateAfterIdle"),
        ({"activateAfterIdle": True}, "activateAfterIdle"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"observations": {}}, "observations"),
    ],
)
def test_what_cannot_be_is_refused_and_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        read_config(given)


def test_an_object_is_checked_too() -> None:
    assert read_config(MemoryConfig()) == MemoryConfig()
    with pytest.raises(UsageError):
        read_config(MemoryConfig(share_token_budget=True))
