"""How runs of Goose end, which neither its records nor its exit code say plainly."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runs import of
from goose_lines import COMPLETE, OWN_ID, answer, call, message, play, text
from harness.events import Compacted, Error, Result, ToolEnd, Warning


@pytest.mark.parametrize(
    ("words", "code", "outcome"),
    [
        ("Ran into this error: Rate limit exceeded: slow down.", "rate_limit_exceeded", "failed"),
        ("Ran into this error: Endpoint not found (404): x.", "endpoint_not_found", "failed"),
        ("Ran into this error: odd.", "provider_error", "failed"),
        ("Ran into this error trying to compact: x.", "compaction_failed", "failed"),
        ("Network error: gone\n\nPlease resend your message to try again.", "network_error", "failed"),
        ("The model returned an empty response. Please resend.", "empty_response", "failed"),
        (
            "I've reached the maximum number of actions I can do without user input. Would you …",
            "max_turns",
            "limit_exceeded",
        ),
    ],
)
@pytest.mark.parametrize("message_id", [OWN_ID, None])
def test_what_goose_says_in_the_models_place_is_an_error(
    words: str, code: str, outcome: str, message_id: str | None
) -> None:
    events = play(message(text("Well.")), message(text(words), message_id=message_id), COMPLETE)

    assert [(error.message, error.code) for error in of(Error, events)] == [(words, code)]
    result = of(Result, events)[-1]
    assert (result.success, result.outcome, result.text) == (False, outcome, "Well.")


def test_a_model_may_quote_an_error() -> None:
    quoted = "Ran into this error: Rate limit exceeded: x."
    inference = {"provider": "openai", "requestedModel": "gpt-4o"}
    from_model = message(text(quoted), message_id=OWN_ID)
    from_model["message"]["metadata"]["inference"] = inference

    for record in (message(text(quoted)), from_model):
        events = play(record, COMPLETE)
        assert not of(Error, events)
        assert of(Result, events)[-1].success


def test_an_error_that_is_emitted_three_times_is_one_error() -> None:
    words = "Ran into this error: Authentication error: no.\n\nPlease retry."
    block = {"type": "error", "kind": "authentication", "message": words}
    events = play(
        message(block, message_id=OWN_ID),
        {"type": "error", "error": words},
        stderr=f"Error: {words}\n",
        exit_code=1,
    )

    assert [(error.message, error.code) for error in of(Error, events)] == [(words, "authentication")]
    assert not of(Warning, events)


def test_an_error_record_fails_the_run_also_when_it_then_completes() -> None:
    events = play(message(text("x")), {"type": "error", "error": "it broke"}, COMPLETE)

    assert [error.message for error in of(Error, events)] == ["it broke"]
    assert of(Result, events)[-1].outcome == "failed"


def test_a_run_that_continues_after_an_error_has_not_failed() -> None:
    broken = message(text("Ran into this error: Server error: x."), message_id=OWN_ID)
    events = play(broken, message(text("Here I am again.")), COMPLETE)

    assert of(Result, events)[-1].outcome == "completed"


@pytest.mark.parametrize(
    ("version", "outcome"), [("1.37.0", "interrupted"), ("1.50.0", "interrupted"), ("1.52.0", "completed")]
)
def test_a_stopped_run_that_completes_was_done_only_where_goose_distinguishes_the_two(
    version: str, outcome: str
) -> None:
    events = play(message(text("x")), COMPLETE, version=version, is_stopped=True)

    assert of(Result, events)[-1].outcome == outcome


def test_a_run_whose_provider_counts_no_tokens_completes_once_a_call_was_answered() -> None:
    uncounted = {"type": "complete", "total_tokens": None}

    assert of(Result, play(message(text("x")), uncounted))[-1].outcome == "failed"
    events = play(call("shell", command="x"), answer(), message(text("x")), uncounted)
    assert of(Result, events)[-1].outcome == "completed"


def test_older_versions_that_state_only_a_total_state_no_usage() -> None:
    result = of(Result, play(message(text("x")), {"type": "complete", "total_tokens": 99}))[-1]

    assert (result.outcome, result.usage) == ("completed", None)


def test_a_refused_call_was_not_run() -> None:
    refusal = "The user has declined to run this tool. DO NOT attempt to call this tool again."
    events = play(call("shell", command="x"), answer(refusal), message(text("ok")), COMPLETE)

    assert of(ToolEnd, events)[0].success is False
    assert [warning.code for warning in of(Warning, events)] == ["permission_denied"]


def test_a_shortened_context_is_emitted_once_it_is_shorter() -> None:
    def notice(words: str) -> dict[str, Any]:
        return message({"type": "systemNotification", "notificationType": "inlineMessage", "msg": words})

    opening = notice("Exceeded auto-compact threshold of 80%. Performing auto-compaction...")
    events = play(opening, notice("Compaction complete"), message(text("on")), COMPLETE)
    assert of(Compacted, events) == [Compacted(trigger="auto")]

    failed = message(text("Ran into this error trying to compact: x."), message_id=OWN_ID)
    assert not of(Compacted, play(opening, failed, COMPLETE))
