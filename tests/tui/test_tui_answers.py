"""Nothing is allowed by accident, and an answer reaches the ask that was on the screen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual import events

from harness.clients.commands import Approve, Deny
from harness.clients.inbox import key_answers
from harness.clients.inbox.key_answers import RESTED_S, SETTLED_S, AnswerGuard, relay_of
from harness.clients.inbox.typed_answers import Asking
from harness.events import RelayReply
from harness.folds.inbox.row import AskCall, InboxRow, RowAsk
from harness.tui import actions
from harness.tui.ask import full_lines, inline_keys
from harness.tui.lines import text_of
from scripted_inbox import ScriptedInbox, allow_ask, checkout_log, twelve_rows
from terminal_screen import Seen, drive, still

__all__ = ["still"]


def rows() -> list[InboxRow]:
    return twelve_rows()


def test_a_key_answers_only_what_has_been_on_the_screen_for_a_while() -> None:
    guard = AnswerGuard()
    assert guard.refuses("y", "ask", 10.0), "it was never drawn"
    guard.show("ask", 10.0)
    assert guard.refuses("n", "ask", 10.0 + SETTLED_S - 0.01)
    assert not guard.refuses("y", "ask", 20.0)
    guard.show("ask", 19.0)  # drawn again, the same
    assert not guard.refuses("a", "ask", 19.1)
    guard.show("another", 30.0)
    assert guard.refuses("p", "ask", 31.0), "that one is not there any more"


def test_a_key_typed_before_an_ask_was_drawn_does_not_answer_it_however_late_it_is_read() -> None:
    guard = AnswerGuard()
    guard.show("ask", 10.0)
    typed_ahead_s = 9.0
    assert guard.refuses("y", "ask", typed_ahead_s)


def test_a_key_that_is_held_down_answers_once() -> None:
    guard = AnswerGuard()
    guard.show("first", 10.0)
    assert not guard.refuses("y", "first", 11.0)
    guard.show("second", 11.0)
    repeats = [11.5 + 0.03 * count for count in range(100)]
    assert all(guard.refuses("y", "second", at) for at in repeats)
    assert not guard.refuses("y", "second", repeats[-1] + RESTED_S)


def test_a_key_at_once_after_an_ask_appeared_is_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_answers, "SETTLED_S", 1000.0)
    data = ScriptedInbox(rows())

    async def script(seen: Seen) -> None:
        await seen.press("y", "a", "n", "e", "1")
        await seen.shows("Too quick to be an answer")
        assert not seen.screen.composer.is_open
        await seen.press("Y")
        await seen.shows("allow these 2 once")
        await seen.press("y")
        assert data.sent == []

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_an_ask_that_comes_never_takes_the_focus_or_what_is_typed() -> None:
    data = ScriptedInbox(rows()[4:])

    async def script(seen: Seen) -> None:
        await seen.press("s")
        await seen.write("yes an")
        gift = seen.screen.rows["gift"]
        data.change(
            replace(gift, state="needs-approval", asks=(allow_ask("n1", "rm -rf /", "Bash", minutes=0),))
        )
        await seen.shows("$ rm -rf /")
        await seen.write("y")
        assert seen.screen.composer.text == "yes any"
        assert data.sent == []

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_a_new_row_does_not_move_the_cursor() -> None:
    data = ScriptedInbox(rows())

    async def script(seen: Seen) -> None:
        await seen.press("j")
        first = replace(
            rows()[0], id="older", title="older ask", asks=(allow_ask("z", "ls", "Bash", minutes=99),)
        )
        data.now.insert(0, first)
        data.change(first)
        await seen.shows("older ask")
        assert seen.screen.list.selected == "tax"
        assert seen.screen.list.ids[:5] == ["checkout", "tax", "quickstart", "basket", "older"]
        seen.screen.select("gift")
        await seen.until(lambda: seen.screen.list.ids[0] == "older")

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_an_answered_row_stays_in_its_place_until_the_cursor_has_left_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actions, "HELD_S", 0.0)
    data = ScriptedInbox(rows())

    async def script(seen: Seen) -> None:
        await seen.press("y")
        data.answered("checkout")
        await seen.until(lambda: seen.screen.rows["checkout"].state == "running")
        await seen.until(lambda: seen.screen.held["checkout"].words == "")
        assert "NEEDS YOU 3" in seen.text, "it stays, and does not need anybody"
        assert seen.screen.list.ids[0] == "checkout", "it is still there"
        assert seen.screen.list.selected == "checkout"
        await seen.press("j")
        assert seen.screen.list.selected == "tax"
        await seen.shows("NEEDS YOU 3")

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_what_a_session_asks_next_takes_the_place_of_the_answer() -> None:
    data = ScriptedInbox(rows())

    async def script(seen: Seen) -> None:
        await seen.press("y")
        await seen.shows("allowed once")
        data.change(replace(rows()[0], asks=(allow_ask("next", "make", "Bash", minutes=0),)))
        await seen.shows("$ make")
        assert "allowed once" not in seen.text

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_the_screen_names_who_answered_first() -> None:
    data = ScriptedInbox(rows(), {"checkout": checkout_log()})

    async def script(seen: Seen) -> None:
        await seen.shows("the cart package to be")
        data.answerers["checkout", "a1"] = "Firefox"
        data.answered("checkout")
        await seen.shows("It was answered by Firefox")

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_the_second_answer_is_reported_as_answered_elsewhere() -> None:
    data = ScriptedInbox(rows(), {"checkout": checkout_log()})

    async def script(seen: Seen) -> None:
        await seen.shows("the cart package to be")
        data.say("checkout", RelayReply(id="a1", approved=False, run_id="run"))
        await seen.until(lambda: "a1" in seen.screen.pane.text.replies)
        data.answered("checkout")
        await seen.shows("It was answered elsewhere: denied")
        await seen.press("y")
        await seen.shows("Nothing is asked here")
        assert data.sent == []

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_what_refuses_an_answer_is_shown_and_the_ask_comes_back() -> None:
    data = ScriptedInbox(rows())
    data.refusal = "It was answered by the page, 2 s ago: denied"

    async def script(seen: Seen) -> None:
        await seen.press("y")
        await seen.shows("It was answered by the page, 2 s ago: denied")
        assert "may it run this?" in seen.text

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_a_reason_is_not_sent_when_the_ask_has_changed_meanwhile() -> None:
    data = ScriptedInbox(rows())

    async def script(seen: Seen) -> None:
        await seen.press("e")
        await seen.write("no")
        row = rows()[0]
        data.change(replace(row, asks=(replace(row.asks[0], arguments_hash="other"),)))
        await seen.until(lambda: seen.screen.rows["checkout"].asks[0].arguments_hash == "other")
        await seen.press("enter")
        await seen.shows("It changed, look again")
        assert data.sent == []

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_without_a_connection_nothing_is_answered() -> None:
    data = ScriptedInbox(rows())
    data.notice = "Not connected for 12 s. What you see is from 14:32."

    async def script(seen: Seen) -> None:
        await seen.shows("Not connected for 12 s.")
        await seen.press("y")
        await seen.shows("Nothing is sent later")
        assert data.sent == []

    drive(data, script)


def marked() -> InboxRow:
    row = rows()[0]
    hidden = replace(
        row.asks[0],
        subject="rm build\u202e/elif",
        marks=({"start": 8, "end": 9, "kind": "bidi", "label": "⟨U+202E⟩"},),
        no_always_why="it has characters that cannot be seen",
    )
    return replace(row, asks=(hidden,))


@pytest.mark.usefixtures("still")
def test_hidden_characters_are_spelled_out_and_one_key_does_not_allow_them() -> None:
    data = ScriptedInbox([marked()])

    async def script(seen: Seen) -> None:
        await seen.shows("$ rm build⟨U+202E⟩/elif")
        await seen.press("a")
        await seen.shows("a is no answer to this")
        await seen.press("y")
        await seen.write("y")
        await seen.press("enter")
        await seen.shows("It was not allowed")
        assert data.sent == []
        await seen.press("backspace")
        await seen.write("allow")
        await seen.press("enter")
        assert data.sent == [("checkout", Approve(relay_id="a1", arguments_hash="hash-a1"))]

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_in_a_narrow_list_only_what_is_shown_whole_can_be_answered() -> None:
    data = ScriptedInbox(rows())

    async def script(seen: Seen) -> None:
        await seen.press("a")
        await seen.shows("↵ shows all of it: look at it first")
        await seen.press("n")
        assert data.sent == [("checkout", Deny(relay_id="a1", arguments_hash="hash-a1"))]
        seen.screen.select("tax")
        await seen.press("y")
        assert len(data.sent) == 1

    drive(data, script, size=(60, 24))


def test_a_command_that_does_not_fit_has_no_keys_in_the_list() -> None:
    long = allow_ask("x", "echo " + "a" * 80, "Bash", minutes=1)
    assert inline_keys(long, 60) == ""
    assert "a" in inline_keys(allow_ask("x", "ls", "Bash: ls", minutes=1), 80)


def test_what_is_viewed_in_full_has_every_character() -> None:
    command = "\n".join(f"echo {number}" for number in range(300)) + "\n\x1b]0;evil\x07"
    asked = RowAsk(id="x", subject=command, operations=({"kind": "command"},))
    row = InboxRow(id="r", asks=(asked,))
    text = "\n".join(text_of(line) for line in full_lines(row, asked, Asking(relay_of(asked)), 80))
    assert "echo 299" in text
    assert "␛]0;evil␇" in text


@pytest.mark.usefixtures("still")
def test_several_questions_are_asked_one_after_the_other() -> None:
    two = RowAsk(
        id="q",
        kind="question",
        question="",
        payload={
            "questions": [
                {
                    "id": "color",
                    "question": "Which colour?",
                    "options": [{"label": "red"}, {"label": "blue"}],
                },
                {
                    "id": "size",
                    "question": "Which size?",
                    "options": [{"label": "small"}, {"label": "large"}],
                },
            ]
        },
    )
    row = replace(rows()[2], asks=(two,))
    data = ScriptedInbox([row])

    async def script(seen: Seen) -> None:
        await seen.shows("Which colour?")
        await seen.press("2")
        await seen.shows("Which size?")
        assert data.sent == []
        await seen.press("1")
        [(_, command)] = data.sent
        assert command.answer == {"color": "blue", "size": "small"}  # type: ignore[union-attr]

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_a_plan_is_approved_or_sent_back_with_what_to_change() -> None:
    plan = RowAsk(id="p", kind="plan", question="Is this plan good?", payload={"plan": "1. read\n2. write"})
    data = ScriptedInbox([replace(rows()[2], asks=(plan,))])

    async def script(seen: Seen) -> None:
        await seen.shows("2. write")
        await seen.press("e")
        await seen.write("tests first")
        await seen.press("enter")
        [(_, command)] = data.sent
        assert command.answer == {"action": "rejected", "feedback": "tests first"}  # type: ignore[union-attr]

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_what_could_not_be_sent_is_a_draft_again() -> None:
    data = ScriptedInbox(rows())
    data.refusal = "the session has ended"

    async def script(seen: Seen) -> None:
        seen.screen.select("gift")
        await seen.press("s")
        await seen.write("precious")
        await seen.press("enter")
        await seen.shows("the session has ended")
        await seen.shows("> precious")

    drive(data, script)


@pytest.mark.usefixtures("still")
def test_a_long_ask_is_allowed_only_after_its_end_was_on_the_screen() -> None:
    data = ScriptedInbox(rows()[:1])
    row = data.now[0]
    whole = replace(row.asks[0], subject="make\n" * 300 + "echo HIDDEN-PART")
    cut = replace(whole, subject="make\n" * 40 + "…", is_cut=True)
    data.now = [replace(row, asks=(cut,))]
    data.whole[row.id, cut.id] = whole

    async def script(seen: Seen) -> None:
        await seen.press("y")
        await seen.shows("esc back")
        assert data.sent == []
        await seen.press("escape", "y")
        await seen.settle()
        assert data.sent == [], "its beginning is not all of it"
        await seen.press("G")
        await seen.shows("echo HIDDEN-PART")
        await seen.press("escape", "y")
        await seen.settle()
        assert [type(command) for _, command in data.sent] == [Approve]

    drive(data, script)


def test_every_call_that_an_ask_stands_for_is_in_the_box_and_why_it_is_asked() -> None:
    row = rows()[0]
    calls = tuple(AskCall(tool_name="Bash", title="run a command", subject=one) for one in ("ls", "make"))
    ask = replace(row.asks[0], further=calls, reason="it runs programs")
    text = "\n".join(map(text_of, full_lines(row, ask, Asking(relay_of(ask)), 80)))
    for words in (
        "pnpm test --filter cart",
        "2 of 3: run a command",
        "ls",
        "3 of 3",
        "make",
        "it runs programs",
    ):
        assert words in text
    assert not inline_keys(ask, 200), "two lines do not show all of it"


@pytest.mark.usefixtures("still")
def test_what_is_pasted_comes_once_and_keeps_its_lines() -> None:
    data = ScriptedInbox(rows())

    async def script(seen: Seen) -> None:
        await seen.press("m")
        seen.app.post_message(events.Paste("first\rsecond\r\nthird\x1b[31m"))
        await seen.settle()
        assert seen.screen.composer.text == "first\nsecond\nthird␛[31m"

    drive(data, script)
