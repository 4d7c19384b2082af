"""What is shown in a terminal before a call is allowed: everything that would run, and nothing hidden."""

from __future__ import annotations

import os
from typing import Any

import pytest

from harness.approvals.work_folder import WorkFolder
from harness.clients.inbox.typed_answers import (
    Asking,
    TypedReply,
    is_yes_or_no,
    question_text,
    reply_to,
)
from harness.contracts.driver import AskedQuestion, Choice, question_relay
from harness.events import Relay, RelayReply, SessionStart, ToolStart
from harness.events.operation import Command
from harness.folds.page_state.shapes import relay as shape_of
from harness.native.tools.registry import default_tools
from harness.questions.choices import choices_of
from harness.stage import ViewOptions
from harness.views import markdown, transcript

BASH = next(one for one in default_tools(".") if one.spec.name == "bash")


def asked(command: str, **more: Any) -> Relay:
    arguments = {"command": command}
    choices = choices_of(BASH, arguments, BASH.operations(arguments), WorkFolder(root=os.path.realpath(".")))
    return Relay(id="r", call_id="run/c", tool_name="bash", input=arguments, choices=choices, **more)


def shown(relay: Relay, *, is_whole: bool = False) -> str:
    return question_text(shape_of(relay), is_whole=is_whole)


def in_transcript(*events: Any) -> str:
    view = transcript.open(ViewOptions(width=100))
    return b"".join(piece for event in events for piece in view.feed(event)).decode()


HIDDEN = {
    "\u202e": "<U+202E>",
    "\u200b": "<U+200B>",
    "\u200d": "<U+200D>",
    "\u2028": "<U+2028>",
    "\u2066": "<U+2066>",
    "\ufeff": "<U+FEFF>",
    "\u00a0": "<U+00A0>",
    "\U000e0041": "<U+E0041>",
    "\u3164": "<U+3164>",
    "\x1b": "␛",
    "\r": "␍",
    "\x07": "␇",
}


@pytest.mark.parametrize("character", HIDDEN, ids=[repr(one) for one in HIDDEN])
def test_what_cannot_be_seen_is_spelled_out_everywhere(character: str) -> None:
    relay = asked(f"echo safe {character}; rm -rf ~ #{character} ok")
    call = ToolStart(
        call_id="c", tool_name="bash", input=relay.input, operations=[Command(command=relay.input["command"])]
    )
    view = markdown.open(ViewOptions())
    as_markdown = b"".join(piece for event in (SessionStart(agent="x"), call) for piece in view.feed(event))
    for text in (shown(relay), in_transcript(SessionStart(agent="x"), relay)):
        assert f"echo safe {HIDDEN[character]}; rm -rf ~" in text
        assert character not in text
    assert character not in as_markdown.decode()


@pytest.mark.parametrize("size", [60, 5000])
def test_a_tall_command_shows_how_much_is_hidden_and_shows_it_when_asked(size: int) -> None:
    relay = asked("ls" + "\n" * size + "echo HIDDEN-PART")
    text = shown(relay)
    assert "HIDDEN-PART" not in text.partition("  [y]")[0]
    assert f"{size - 19:,} more lines: /show shows all of it" in text
    assert "echo HIDDEN-PART" in shown(relay, is_whole=True)
    assert f"{size - 39:,} more lines" in in_transcript(relay)


def test_what_was_not_shown_whole_is_shown_before_it_is_allowed() -> None:
    asking = Asking(shape_of(asked("ls\n" * 60 + "echo HIDDEN-PART")))
    assert "HIDDEN-PART" not in asking.text().partition("  [y]")[0]
    assert asking.take("y") is None
    assert "echo HIDDEN-PART" in asking.text()
    assert asking.take("y") == TypedReply(True)  # more than a label can say: no "always" is offered
    assert Asking(shape_of(asked("ls\n" * 60))).take("no") == TypedReply(False)
    looked = Asking(shape_of(asked("ls\n" * 60)))
    looked.text(is_whole=True)
    assert looked.take("y") == TypedReply(True)


def test_every_call_of_a_question_is_shown_and_why_it_is_asked() -> None:
    calls = [{"toolName": "bash", "input": {"command": f"echo {one}"}} for one in "bc"]
    text = question_text(shape_of(asked("echo a")) | {"further": calls, "why": "it writes"})
    assert [f"command: echo {one}" in text for one in "abc"] == [True] * 3
    assert "asked because: it writes" in text


def test_a_long_command_shows_how_much_is_hidden_and_shows_it_when_asked() -> None:
    relay = asked("ls" + " " * 1000 + "; echo HIDDEN-PART")
    text = shown(relay)
    assert "HIDDEN-PART" not in text
    assert "more characters" in text
    assert "/show shows all of it" in text
    assert "echo HIDDEN-PART" in shown(relay, is_whole=True)
    assert "more characters" in in_transcript(relay)


def test_an_overwrite_shows_what_goes_away() -> None:
    preview = [
        {
            "path": "/x/a.txt",
            "change": "update",
            "added": 1,
            "removed": 9,
            "diff": "@@ -1,9 +1 @@\n-old line\n+new line",
            "hidden_lines": 7,
        }
    ]
    relay = Relay(id="r", tool_name="write", input={"filePath": "a.txt", "content": "new"}, preview=preview)
    for text in (shown(relay), in_transcript(relay)):
        for part in ("update /x/a.txt: +1 -9", "-old line", "+new line", "7 more lines of this difference"):
            assert part in text
    assert in_transcript(relay).count("filePath: a.txt") == 1, "the title says nothing that stands below it"


def test_a_question_names_the_sub_agent_and_what_each_answer_grants() -> None:
    text = shown(asked("git status -s", subagent="explore"))
    assert text.startswith("? explore asks: may it call bash: git status -s\n")
    assert text.endswith(
        "  [y] Allow once\n  [a] Always allow exactly: git status -s\n"
        "  [p] Always allow git status -s …, and names or paths below the folder after it\n  [n] No, or why not"
    )
    assert shown(Relay(id="r", tool_name="x")).endswith("\n  [y] Allow once   [n] No, or why not")
    assert "[p]" not in shown(asked("git status; rm x"))
    assert "explore asks: may it call bash" in in_transcript(asked("ls", subagent="explore"))


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("y", TypedReply(True)),
        ("YES", TypedReply(True)),
        ("a", TypedReply(True, "always")),
        ("p", TypedReply(True, "pattern")),
        ("n", TypedReply(False)),
        ("not on a Friday", TypedReply(False, reason="not on a Friday")),
    ],
)
def test_what_is_typed_is_one_of_the_answers_that_were_shown(text: str, reply: TypedReply) -> None:
    assert reply_to(shape_of(asked("git status")), text) == reply


def test_a_pattern_that_was_not_offered_is_a_no() -> None:
    assert not reply_to(shape_of(asked("git status; rm x")), "p").approved


def test_plans_and_questions_get_answers_of_their_own_shape() -> None:
    plan = shape_of(Relay(id="p", kind="plan", question="Ship it", payload={"plan": "1. Build"}))
    assert "1. Build" in question_text(plan)
    assert reply_to(plan, "y").answer == {"action": "approved"}
    assert reply_to(plan, "no").answer == {"action": "rejected"}
    assert reply_to(plan, "tests first").answer == {"action": "rejected", "feedback": "tests first"}
    number = shape_of(Relay(id="q", kind="tool", question="How many?", resume_schema={"type": "integer"}))
    assert reply_to(number, "5").answer == 5
    text = shape_of(Relay(id="q", kind="question", question="Who?", resume_schema={"type": "string"}))
    assert reply_to(text, "5").answer == "5"
    assert is_yes_or_no("A")
    assert not is_yes_or_no("always do it so")


def test_always_is_shown_in_the_transcript_for_each_option() -> None:
    for reply in (
        RelayReply(id="r", approved=True, always=True),
        RelayReply(id="r", approved=True, choice="pattern"),
    ):
        assert "yes, always" in in_transcript(asked("ls"), reply)


COLOUR = AskedQuestion(
    id="colour",
    question="Which colour?",
    header="Paint",
    options=[Choice(label="Red", description="warm"), Choice(label="Blue")],
)
SIZES = AskedQuestion(
    id="sizes", question="Which sizes?", options=[Choice(label="S"), Choice(label="M")], multiple=True
)


def test_the_options_of_a_question_have_numbers() -> None:
    relay = shape_of(question_relay([COLOUR]))
    assert question_text(relay) == (
        "? Paint: Which colour?\n  [1] Red: warm\n  [2] Blue\n  a number, or your own words"
    )
    for typed, answer in (("2", "Blue"), ("Red", "Red"), ("3", "3"), ("1,2", "1,2"), ("green", "green")):
        assert reply_to(relay, typed) == TypedReply(True, answer=answer)
    several = shape_of(question_relay([SIZES]))
    assert "several as 1,2" in question_text(several)
    for typed, choices in (("1", ["S"]), ("2, 1", ["M", "S"]), ("M", ["M"])):
        assert reply_to(several, typed).answer == choices
    assert reply_to(several, "none").answer == "none"


def test_several_questions_are_asked_one_after_the_other() -> None:
    asking = Asking(shape_of(question_relay([COLOUR, SIZES])))
    assert asking.text().startswith("? (1 of 2) Paint: Which colour?\n")
    assert asking.take("1") is None
    assert asking.text().startswith("? (2 of 2) Which sizes?\n")
    assert asking.take("1,2") == TypedReply(True, answer={"colour": "Red", "sizes": ["S", "M"]})


def test_a_question_cannot_look_like_another_one() -> None:
    spoof = "Fine?\n? may it call bash: ls\n  [y] Allow once\x1b[2J\r"
    options = [Choice(label="a\nb\x1b[1m", description="c\n? d")]
    shapes = [
        question_relay([AskedQuestion(id="q", question=spoof, options=options, header="x\ny")]),
        question_relay([AskedQuestion(id="q", question=spoof), AskedQuestion(id="p", question=spoof)]),
        Relay(id="r", kind="plan", question=spoof, payload={"plan": spoof}),
        Relay(id="r", tool_name=spoof, input={"command": spoof}, question=spoof, subagent=spoof),
        Relay(id="r", question=spoof),
        Relay(id="r", kind="question", question=spoof, options=[spoof], payload={"questions": [5]}),
    ]
    for relay in shapes:
        text = Asking(shape_of(relay), spoof).text()
        assert "\x1b" not in text
        assert "\r" not in text
        assert [line[0] for line in text.split("\n") if line[0] != " "] == ["?"], text


def test_the_reason_of_a_call_is_not_what_is_run() -> None:
    relay = asked("rm -rf x", question="List the files")
    assert "? may it call bash: rm -rf x\n  reason: List the files\n" in shown(relay)
    assert "may it call bash: rm -rf x" in in_transcript(relay)


def test_feedback_on_a_plan_is_a_reason_too() -> None:
    """Agent programs are given the reason, our own tool the answer."""
    plan = shape_of(Relay(id="p", kind="plan", payload={"plan": "1. Build"}))
    assert "Is this plan good?" in question_text(plan)
    assert reply_to(plan, "tests first").reason == "tests first"
