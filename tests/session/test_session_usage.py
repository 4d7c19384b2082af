"""Tokens: added up, stored with the thread, and shown as the provider reported them."""

from __future__ import annotations

import msgspec
import pytest

from harness.events import Usage, UsageDelta
from harness.folds.session.events import TokenUsage
from harness.folds.session.usage import NOTHING_USED, read_usage
from harness.log.stores.memory import MemoryStore
from harness_kit import Model, StoreMaker, call, opened, run, storage, used
from running_kit import in_loop

__all__ = ["storage"]


def test_usage_adds_up_over_steps_and_runs_and_is_stored(storage: StoreMaker) -> None:
    async def work() -> None:
        first = call("task_check")
        first["events"].append({"type": "usage", "inputTokens": 100, "outputTokens": 10})
        model = Model(
            first,
            used("a", inputTokens=200, outputTokens=20, cacheReadTokens=50, reasoningTokens=5),
            used("b", inputTokens=4, outputTokens=2, cacheCreationTokens=3),
        )
        async with opened(model, storage=storage.open()) as (harness, record):
            thread = await harness.create_thread()
            await harness.send_message(content="one")
            assert [data["usage"]["totalTokens"] for data in record.named("usage_update")] == [110, 220]
            usage = harness.session.get_token_usage()
            assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (300, 30, 330)
            assert (usage.cached_input_tokens, usage.reasoning_tokens) == (50, 5)
            await harness.send_message(content="two")
            assert harness.session.get_token_usage().total_tokens == 336
            assert harness.session.display_state.get().token_usage == harness.session.get_token_usage()
            expected = msgspec.to_builtins(harness.session.get_token_usage())
            assert expected["cacheCreationInputTokens"] == 3
            (listed,) = harness.session.thread.list()
            assert msgspec.to_builtins(listed.token_usage) == expected
            assert "tokenUsage" not in (listed.metadata or {})
            await harness.create_thread()
            assert harness.session.get_token_usage().total_tokens == 0
        async with opened(used_model(), storage=storage.open()) as (harness, _):
            await harness.switch_thread(thread_id=thread.id)
            assert msgspec.to_builtins(harness.session.get_token_usage()) == expected
            await harness.send_message(content="three")
            assert harness.session.get_token_usage().total_tokens == 336 + 7

    run(work)


def used_model() -> Model:
    return Model(used("c", inputTokens=4, outputTokens=3))


def test_what_is_given_out_is_a_copy() -> None:
    async def work() -> None:
        async with opened(used_model()) as (harness, _):
            await harness.send_message(content="hi")
            before = harness.session.get_token_usage()
            harness.session.reset_token_usage()
            assert before.total_tokens == 7
            assert harness.session.get_token_usage().total_tokens == 0
            harness.session.set_token_usage(TokenUsage(prompt_tokens=1, total_tokens=9))
            assert harness.session.display_state.get().token_usage.total_tokens == 9
            harness.session.add_usage({"inputTokens": 2, "outputTokens": "1"})
            assert harness.session.get_token_usage().total_tokens == 12

    run(work)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"promptTokens": 3, "completionTokens": 4}, (3, 4, 7)),
        ({"inputTokens": 3, "outputTokens": 4}, (3, 4, 7)),
        ({"inputTokens": "3", "outputTokens": "4", "totalTokens": "12"}, (3, 4, 12)),
        ({"promptTokens": 3, "inputTokens": 99, "totalTokens": 5}, (3, 0, 5)),
        ({}, (0, 0, 0)),
    ],
)
def test_both_spellings_are_read_and_a_total_that_is_given_counts(
    said: dict[str, object], expected: tuple[int, int, int]
) -> None:
    usage = read_usage(said)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == expected


def test_what_a_command_agent_used_counts_as_well() -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, record):
            await harness.create_thread()
            harness.session.internals.append(UsageDelta(usage=Usage(input=5, output=6)))
            assert record.wire[-1] == {
                "type": "usage_update",
                "usage": {"promptTokens": 5, "completionTokens": 6, "totalTokens": 11},
            }
            assert harness.session.get_token_usage().total_tokens == 11

    run(work)


def test_a_count_that_was_set_is_in_the_log_and_what_was_used_stays_on_the_bill(storage: StoreMaker) -> None:
    async def work() -> None:
        store = storage.open()
        async with opened(used_model(), storage=store) as (harness, record):
            thread = await harness.create_thread()
            await harness.send_message(content="one")
            harness.session.reset_token_usage()
            assert harness.session.get_token_usage().total_tokens == 0
            assert record.named("usage_update")[-1]["total"]["totalTokens"] == 0
            (listed,) = harness.session.thread.list()
            assert listed.token_usage == harness.session.get_token_usage()
            harness.session.set_token_usage({"promptTokens": 5, "completionTokens": 1, "totalTokens": 9})
            counted = harness.session.get_token_usage()
            assert (counted.prompt_tokens, counted.total_tokens) == (5, 9)
            assert store.usage(thread.id).input == 4
        async with opened(used_model(), storage=storage.open()) as (harness, _):
            await harness.select_or_create_thread()
            assert harness.session.get_token_usage() == counted
            (listed,) = harness.session.thread.list()
            assert listed.token_usage == counted
            await harness.send_message(content="two")
            assert harness.session.get_token_usage().total_tokens == 9 + 7

    run(work)


@in_loop
async def test_usage_that_is_reset_is_nothing_used() -> None:
    async with opened() as (harness, _):
        await harness.send_message(content="hi")
        harness.session.reset_token_usage()
        assert harness.session.get_token_usage() == NOTHING_USED
