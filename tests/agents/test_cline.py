"""Cline: command lines, what its recordings must come to, and what it says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agent_runs import of
from cline_lines import CASES, DONE, event, hook, piece, play, text_end
from harness.agents.cline.agent import AGENT, command
from harness.contracts.request import Request
from harness.events import (
    Compacted,
    Error,
    Info,
    Message,
    ReasoningDelta,
    SessionStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.testing.golden import translate

ALWAYS = ("--json", "-v")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(agent="cline", prompt="Do it"), ("--auto-approve", "true", "--", "Do it")),
        (Request(agent="cline", prompt="Do it", permissions="agent-default"), ("--", "Do it")),
        (
            Request(agent="cline", prompt="- a b", permissions="agent-default", model="m", system_prompt="s"),
            ("--model", "m", "--system", "s", "--", "- a b"),
        ),
        (
            Request(agent="cline", prompt="Do it", permissions="agent-default", extra_args=("--plan",)),
            ("--plan", "--", "Do it"),
        ),
    ],
)
def test_a_request_becomes_arguments(request_: Request, expected: tuple[str, ...]) -> None:
    assert command(request_, ()).args == (*ALWAYS, *expected)


def test_a_prompt_of_one_word_is_not_taken_for_a_command() -> None:
    assert command(Request(agent="cline", prompt="Delegate"), ()).args[-1] == "Delegate "


def test_nothing_is_promised_that_this_mode_cannot_do() -> None:
    assert AGENT.supports == {"agent-default", "effort", "model", "system_prompt"}


OUTCOMES = {
    "hello": "completed",
    "length": "completed",
    "perm_ask": "completed",
    "timeout_flag": "completed",
    "badcalls": "failed",
    "badjson_retries": "failed",
    "badsession": "failed",
    "drop_mid_forever": "failed",
    "empty": "failed",
    "err400_context": "failed",
    "err401": "failed",
    "err429_forever": "failed",
    "no_model": "failed",
    "stdin_prompt": "failed",
    "tool_then_error": "failed",
    "sigint_stream": "failed",
    "sigint_tool": "failed",
    "sigint_twice": "failed",
    "sigterm_stream": "interrupted",
    "sigterm_tool": "interrupted",
    "sigkill_tool": "failed",
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_result_is_true_whatever_the_exit_code_says(name: str) -> None:
    _, events = translate(CASES[name])

    assert events[-1].outcome == OUTCOMES[name]
    assert len(of(Error, events)) == (OUTCOMES[name] != "completed" and not name.startswith("sigterm"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hello_anthropic", Usage(input=90, output=55, cache_read=2200, cache_write=200)),
        ("subagent_parallel", Usage(input=600, output=120)),
        ("tools", Usage(input=3900, output=780)),
        ("reasoning_noflag", Usage(input=300, output=90)),
        ("empty", Usage(input=300, output=60)),
        ("err401", None),
    ],
)
def test_usage_is_what_the_models_were_scripted_to_use(name: str, expected: Usage | None) -> None:
    _, events = translate(CASES[name])
    total = Usage()
    for delta in of(UsageDelta, events):
        total = total.plus(delta.usage)

    result = events[-1].usage
    assert result == (total or None)
    assert expected == (result and msgspec.structs.replace(result, cost_usd=None, cost_source=""))


def test_a_cost_is_stated_only_where_the_price_is_known() -> None:
    _, events = translate(CASES["hello_anthropic"])
    assert (events[-1].total_cost_usd, events[-1].usage.cost_source) == (0.002505, "stated")

    _, events = translate(CASES["hello"])
    assert (events[-1].total_cost_usd, events[-1].usage.cost_source) == (None, "")


def test_an_error_is_emitted_once_though_stderr_repeats_it() -> None:
    _, events = translate(CASES["err401"])

    assert [(error.message, error.code) for error in of(Error, events)] == [
        ("Incorrect API key provided: dummy.", "auth")
    ]
    assert not of(Warning, events)


def test_noise_of_the_libraries_is_no_warning_but_other_lines_are() -> None:
    noise = (
        "DeprecationWarning: AI SDK Warning (x / y): Deprecated\n      at iX (/$bunfs/root/chunk-1.js:26:4)\n"
    )

    events = play(DONE, stderr=noise + "disk is full\n")

    assert [warning.message for warning in of(Warning, events)] == ["disk is full"]


def test_a_refused_permission_is_a_warning_and_the_run_continues() -> None:
    _, events = translate(CASES["perm_ask"])

    assert [warning.code for warning in of(Warning, events)] == ["permission_denied"] * 2
    assert [ended.success for ended in of(ToolEnd, events)] == [False, False]


def test_a_text_that_begins_again_takes_back_what_was_cut_off() -> None:
    events = play(piece("Hel", "Hel"), piece("lo", "Hello"), piece("Hi", "Hi"), text_end("Hi"), DONE)

    [taken_back] = of(TextRetracted, events)
    assert [delta.id for delta in of(TextDelta, events)][:2] == [taken_back.id] * 2
    assert of(TextDelta, events)[-1].id == of(Message, events)[-1].id != taken_back.id


@pytest.mark.parametrize("name", ["hello_anthropic", "reasoning_noflag", "unicode", "sigterm_stream"])
def test_pieces_add_up_to_the_message_of_the_same_id(name: str) -> None:
    _, events = translate(CASES[name])
    streamed: dict[str, str] = {}
    for delta in of(TextDelta, events):
        streamed[delta.id] = streamed.get(delta.id, "") + delta.text

    assert streamed == {each.id: each.text for each in of(Message, events) if each.role == "assistant"}
    scripted = "".join(turn.get("reasoning", "") for turn in CASES[name].meta.script["main"])
    assert "".join(delta.text for delta in of(ReasoningDelta, events)) == scripted


def test_the_model_is_stated_by_the_verbose_stream() -> None:
    _, events = translate(CASES["verbose"])

    assert of(SessionStart, events)[0].model == "lab-model"
    assert {delta.model for delta in of(UsageDelta, events)} == {"lab-model"}


def test_a_session_id_is_taken_but_never_that_of_a_task() -> None:
    assert of(SessionStart, play({**hook("agent_start"), "taskId": "conv_1"}))[0].session_id == ""
    assert of(SessionStart, play({**hook("agent_start"), "sessionId": "s-1"}))[0].session_id == "s-1"
    late = play(hook("agent_start"), text_end("Hi."), {**DONE, "session_id": "s-2"})
    assert of(Info, late)[0].session_id == "s-2"


def test_compaction_is_emitted_when_it_has_happened() -> None:
    done = {"kind": "auto_compaction", "phase": "completed", "tokensBefore": 9, "tokensAfter": 3}
    skipped = {"kind": "auto_compaction", "phase": "skipped"}

    events = play(event("notice", metadata=done), event("notice", message="skipped", metadata=skipped))

    assert of(Compacted, events) == [Compacted(trigger="auto_compaction", before_tokens=9, after_tokens=3)]
    assert of(Warning, events) == [Warning(message="skipped", code="auto_compaction")]


def test_the_old_stream_states_what_is_said_and_keeps_the_rest() -> None:
    def chat(kind: str, what: str, text: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, kind: what, "text": text, "ts": 7, **more}

    tool = chat("say", "tool", '{"tool":"readFile","path":"a"}')
    events = play(
        {"type": "task_started", "taskId": "t-1"},
        *(chat("say", "task", "do it"), chat("say", "reasoning", "Hm.")),
        *(chat("say", "text", "I wi", partial=True), chat("say", "text", "I will.", partial=True)),
        *(chat("say", "text", "I will."), tool, chat("ask", "followup", '{"question":"Which?"}')),
        *(chat("say", "api_req_retried", ""), chat("say", "completion_result", "Done.", ts=8)),
    )

    assert of(SessionStart, events)[0].session_id == ""
    assert [delta.text for delta in of(TextDelta, events)] == ["I wi", "ll."]
    assert [each.text for each in of(Message, events)] == ["do it", "I will.", "Which?", "Done."]
    assert of(Unknown, events) == [Unknown(raw=tool)]
    assert [warning.code for warning in of(Warning, events)] == ["retry"]
    assert (events[-1].outcome, events[-1].text) == ("completed", "Done.")


def test_the_old_stream_fails_with_one_error() -> None:
    failed = {"type": "ask", "ask": "api_req_failed", "text": "401 no key", "ts": 1}

    events = play(failed, {"type": "error", "message": "401 no key"}, exit_code=1)

    assert [error.message for error in of(Error, events)] == ["401 no key"]
    assert events[-1].outcome == "failed"
