"""What `harness top` draws: sections, rows, the ask under the cursor, at any width, and nothing that commands a terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from harness.cli.top.lines import (
    KEYS,
    Look,
    answer_lines,
    card_place,
    full_lines,
    is_whole,
    screen_lines,
    shown_order,
)
from harness.clients.inbox.key_answers import relay_of
from harness.clients.inbox.rows import InboxPage, RowCounts
from harness.clients.inbox.today import Today
from harness.clients.inbox.typed_answers import Asking
from harness.folds.inbox.row import (
    AskCall,
    InboxRow,
    RowAsk,
    RowChanges,
    RowChild,
    RowContext,
    RowFailure,
    RowOperation,
    RowProject,
)
from harness.formatting.amounts import age
from harness.formatting.columns import columns

NOW_MS = 1_800_000_000_000
ASK = RowAsk(
    id="q",
    title="run a command",
    subject="pnpm test --filter cart",
    operations=({"kind": "command", "command": "pnpm test"},),
    options=[
        {"id": "once", "kind": "allow-once", "label": "Allow once"},
        {"id": "always", "kind": "allow-always", "label": "Always allow Bash: pnpm test --filter cart"},
        {"id": "pattern", "kind": "allow-always", "label": "Always allow Bash: pnpm test …"},
        {"id": "reject", "kind": "reject-once", "label": "Deny"},
    ],
)


def row(id: str, state: Any = "running", **more: Any) -> InboxRow:
    given = {"title": id, "agent": "Claude Code", "agent_name": "claude", "updated_ms": NOW_MS, **more}
    return InboxRow(id=id, state=state, state_since_ms=NOW_MS - 360_000, **given)


ROWS = (
    row("checkout", "needs-approval", asks=(ASK,), cost_usd=0.31),
    row(
        "quickstart", "asks", asks=(RowAsk(id="x", kind="question", subject="npm?", options=["npm", "pnpm"]),)
    ),
    row(
        "gift cards",
        last_operation=RowOperation(kind="write", text="Edit gift.ts"),
        children=(RowChild(run_id="c", name="reviewer", started_ms=NOW_MS - 38_000),),
        context=RowContext(used=41, limit=100),
        cost_usd=0.4,
        is_cost_complete=False,
    ),
    row(
        "done",
        "succeeded",
        project=RowProject(name="shop"),
        changes=RowChanges(files=1, added=64, removed=22),
    ),
    row(
        "flaky", "failed", project=RowProject(name="infra"), failure=RowFailure(text="timed out after 30 min")
    ),
)


def look(
    rows: tuple[InboxRow, ...] = ROWS, *, cursor: str = "checkout", width: int = 100, **more: Any
) -> Look:
    counts = RowCounts(needs_you=2, running=1)
    given = {"height": 30, "today": Today(cost_usd=12.84, is_cost_complete=False), "now_ms": NOW_MS, **more}
    return Look(
        page=InboxPage(rows=rows, total=len(rows), counts=counts), cursor=cursor, width=width, **given
    )


def answers(ask: RowAsk) -> list[str]:
    return answer_lines(ask, Asking(relay_of(ask)))


def text(lines: Any) -> list[str]:
    return ["".join(part for _style, part in line) for line in lines]


def test_the_screen() -> None:
    lines = text(screen_lines(look()))
    assert lines[0].startswith(" harness  2 need you · 1 running · ≥ $12.84 today")
    assert lines[1].startswith("NEEDS YOU 2 ──")
    assert re.fullmatch(r"▶ checkout +Cl ! run a command +\$0.31 +6 min", lines[2])
    assert [line.strip() for line in lines[3:7]] == [
        "$ pnpm test --filter cart",
        "y once   n no   e no, because …",
        "a always Bash: pnpm test --filter cart (in this conversation)",
        "p always Bash: pnpm test … (in this conversation)",
    ]
    whole = "\n".join(lines)
    assert re.search(r"gift cards +Cl ● Edit gift.ts +≥ \$0.40 +41 % +6 min", whole)
    assert re.search(r"└ reviewer +38 s", whole)
    assert "EARLIER · shop" in whole
    assert "✓ +64 −22" in whole
    assert "✗ timed out after 30 min" in whole


@pytest.mark.parametrize("width", [40, 60, 100, 160])
@pytest.mark.parametrize("height", [6, 24, 60])
def test_it_fits(width: int, height: int) -> None:
    for cursor in shown_order(ROWS):
        lines = text(screen_lines(look(cursor=cursor, width=width, height=height)))
        assert len(lines) == height
        assert max(map(columns, lines)) <= width
        assert any(line.startswith("▶") for line in lines)


def test_nothing_of_an_agent_commands_the_terminal() -> None:
    evil = "\x1b]0;x\x07\x1b[2J\u202e\r\n"
    rows = (
        row(
            "a",
            "needs-approval",
            title=evil,
            agent=evil,
            asks=(RowAsk(id="q", title=evil, subject=evil, run_name=evil, why=evil),),
            project=RowProject(name=evil),
        ),
        row("b", title=evil, last_operation=RowOperation(text=evil), children=(RowChild(name=evil),)),
        row("c", "failed", failure=RowFailure(text=evil), project=RowProject(name=evil)),
    )
    for lines in (screen_lines(look(rows, cursor="a")), full_lines(rows[0], rows[0].asks[0], 60)):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", "".join(text(lines)))


def test_what_is_asked_is_never_cut_without_a_word() -> None:
    long = RowAsk(id="q", title="run a command", subject="x" * 1_500, operations=ASK.operations)
    assert is_whole(ROWS[0], ASK, 60)
    assert not is_whole(ROWS[0], long, 60)
    shown = "\n".join(text(screen_lines(look((row("a", "needs-approval", asks=(long,)),), cursor="a"))))
    assert "more lines: v shows all of it" in shown
    assert "".join(text(full_lines(ROWS[0], long, 60))).count("x") == 1_500
    changed = RowAsk(id="q", preview=[{"path": "a", "diff": "+one\n-two", "hiddenLines": 3}])
    assert not is_whole(ROWS[0], changed, 60)
    whole = text(full_lines(ROWS[0], changed, 60))
    assert {"+one", "-two"} <= set(whole)
    assert "… 3 more lines of this difference are not here" in whole


def test_marks_and_deletions_are_named() -> None:
    marked = RowAsk(id="q", subject="x", marks=({"start": 0},), no_always_why="it deletes")
    shown = "\n".join(text(screen_lines(look((row("a", "needs-approval", asks=(marked,)),), cursor="a"))))
    assert "characters that cannot be seen" in shown
    assert "(no always: it deletes)" in shown


def test_a_card_that_changes_or_moves_has_another_place() -> None:
    first = card_place(look())
    assert card_place(look()) == first
    other = RowAsk(id="q", arguments_hash="another")
    assert card_place(look((row("checkout", "needs-approval", asks=(other,)), *ROWS[1:]))) != first
    assert card_place(look((ROWS[1], ROWS[0]))) != first


def test_a_question_and_a_plan() -> None:
    assert answers(ROWS[1].asks[0]) == ["1 npm", "2 pnpm", "e your own words …   n no answer"]
    plan = RowAsk(id="p", kind="plan", subject="Is this plan good?", payload={"plan": "1. Read\n2. Write"})
    assert answers(plan) == ["y approve   n send back   e what to change …"]
    assert {"  1. Read", "  2. Write"} <= set(text(full_lines(ROWS[0], plan, 60)))


def test_several_questions_are_asked_one_after_the_other() -> None:
    questions = [
        {"id": "1", "question": "Which?", "options": [{"label": "npm"}, {"label": "pnpm"}]},
        {"id": "2", "question": "Really?", "options": [{"label": "yes"}]},
    ]
    ask = RowAsk(id="x", kind="question", subject="Which?", payload={"questions": questions})
    asking = Asking(relay_of(ask))
    rows = (row("a", "asks", asks=(ask,)),)
    assert "1 npm" in "\n".join(text(screen_lines(look(rows, cursor="a", asking=asking))))
    assert asking.take("2") is None
    second = "\n".join(text(screen_lines(look(rows, cursor="a", asking=asking))))
    assert "Really?" in second
    assert "1 yes" in second
    reply = asking.take("1")
    assert reply is not None
    assert reply.answer == {"1": "pnpm", "2": "yes"}


def test_ages() -> None:
    assert [age(ms) for ms in (0, 48_000, 360_000, 7_200_000, 200_000_000)] == [
        "0 s",
        "48 s",
        "6 min",
        "2 h",
        "2 d",
    ]


def test_every_key_is_listed() -> None:
    listed = "".join(keys for keys, _words in KEYS)
    assert set("jkyapnevsxcgG?q") <= set(listed)


@pytest.mark.parametrize(
    ("today", "words"),
    [
        (Today(), ""),
        (Today(cost_usd=12.84), "$12.84"),
        (Today(cost_usd=12.84, is_cost_complete=False, limit_usd=40.0), "≥ $12.84 of $40"),
        (Today(limit_usd=7.5), "$0.00 of $7.50"),
    ],
)
def test_what_today_cost_is_reported_with_its_limit(today: Today, words: str) -> None:
    assert today.words == words


def test_an_ask_that_the_list_does_not_show_whole_says_so_and_is_shown_whole() -> None:
    long = replace(ASK, subject="x" * 5_000 + "\u00e9nd", preview=[{"path": "a", "diff": "+" + "y" * 900}])
    text = "".join(text for line in full_lines(ROWS[0], long, 60) for _, text in line).replace(" ", "")
    assert text.count("x") >= 5_000
    assert text.count("y") >= 900
    for other in (
        replace(ASK, is_cut=True),
        replace(ASK, further=(AskCall(subject="ls"),)),
        replace(ASK, more=(("timeout", "9"),)),
    ):
        assert not is_whole(ROWS[0], other, 200)
    assert is_whole(ROWS[0], ASK, 200)
