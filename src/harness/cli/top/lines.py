"""The inbox as lines of a terminal: rows in sections, the ask of the row under the cursor. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.clients.inbox.key_answers import (
    has_marks,
    is_command,
    options_of,
    plan_text,
    relay_of,
)
from harness.clients.inbox.labels import (
    STATE_SIGNS,
    agent_code,
    context_of,
    cost_of,
    ended_words,
    when,
)
from harness.clients.inbox.rows import InboxPage
from harness.clients.inbox.today import Today
from harness.clients.inbox.typed_answers import Asking
from harness.folds.inbox.row import NEEDS_YOU, WORKS, AskCall, InboxRow, RowAsk, RowChild
from harness.formatting.amounts import age
from harness.formatting.columns import columns, cut, pieces, wrapped
from harness.formatting.escapes import revealed, single_line
from harness.formatting.terminal import Segment, Style

NARROWEST = 40
_ASK_LINES = 4
"""How many lines of an ask are shown in the list."""
_MOST_CHILDREN = 4
KEYS: tuple[tuple[str, str], ...] = (
    ("j k ↓ ↑", "move"),
    ("↵", "open: follow it, or read it"),
    ("y", "allow once; approve a plan"),
    ("a p", "always allow what is printed"),
    ("n", "deny"),
    ("e", "no, because …; to a question: your own words"),
    ("1-9", "choose an answer"),
    ("v", "view what it asks in full"),
    ("s", "steer it, or send the next message"),
    ("x", "stop it"),
    ("c", "new conversation"),
    ("g G", "first, last"),
    ("?", "these keys"),
    ("q", "quit"),
)
_KEY_LINE = "j k move  ↵ open  y a n e answer  s steer  x stop  c new  ? keys  q quit"

ScreenLine = Sequence[Segment]


class Look(NamedTuple):
    """What the screen shows at a moment."""

    page: InboxPage
    today: Today
    cursor: str
    """The id of the row under it."""
    now_ms: int
    width: int
    height: int
    message: str = ""
    """Of the last action, or a problem."""
    prompt: str = ""
    """What is being typed, with the words before it."""
    asking: Asking | None = None
    """The ask under the cursor, as far as its questions are answered; None: from its beginning."""


def screen_lines(look: Look) -> list[ScreenLine]:
    """As many lines as the screen has, none wider."""
    body, focus = _body(look)
    room = max(1, look.height - 3)
    start = max(0, min(focus - room // 2, len(body) - room))
    screen: list[ScreenLine] = [_header(look), *body[start : start + room]]
    screen += [[("", "")]] * (room + 1 - len(screen))
    more = len(body) - start - room
    note = look.prompt or look.message or (f"{more} more lines below" if more > 0 else "")
    screen.append([("bold" if look.prompt else "", cut(single_line(note), look.width))])
    screen.append([("dim", cut(_KEY_LINE, look.width))])
    return screen[: look.height]


def card_place(look: Look) -> tuple[str, str, int]:
    """Which ask the keys would answer, and on which line it is: while this changes, no key answers."""
    row = next((row for row in look.page.rows if row.id == look.cursor), None)
    ask = row.asks[0] if row is not None and row.asks else None
    return look.cursor, "" if ask is None else ask.id + ask.arguments_hash, _body(look)[1]


def is_whole(row: InboxRow, ask: RowAsk, width: int) -> bool:
    """Whether the list shows everything that is asked."""
    is_here = ask.cwd in ("", row.cwd)
    is_short = len(_subject_lines(ask, width, Asking(relay_of(ask)))) <= _ASK_LINES
    return is_short and is_here and not (ask.preview or ask.more or ask.is_cut or ask.further)


def full_lines(row: InboxRow, ask: RowAsk, width: int, asking: Asking | None = None) -> list[ScreenLine]:
    """Everything about an ask, for a screen of its own."""
    asking = asking or Asking(relay_of(ask))
    lines: list[ScreenLine] = [
        [("bold", cut(single_line(row.title or row.id), width))],
        [("dim", cut(single_line(f"{row.agent} in {ask.cwd or row.cwd}"), width))],
        [("", "")],
        [("yellow", cut(_asks_to(ask), width))],
    ]
    if ask.why:
        lines += [[("dim", line)] for line in wrapped(single_line(ask.why), width, most=6)]
    lines += [[("", line)] for line in _subject_lines(ask, width, asking)]
    lines += _details(ask, width)
    for number, call in enumerate(ask.further, 2):
        lines += [[("", "")], [("yellow", cut(f"{number} of {len(ask.further) + 1}: {_title(call)}", width))]]
        lines += [[("", line)] for line in _call_subject(call, width, call.subject)]
        lines += _details(call, width)
    lines += _reason(ask, width)
    return [*lines, [("", "")], *_answers(ask, width, asking)]


def _details(call: AskCall, width: int) -> list[ScreenLine]:
    """What a call is given besides its subject, and what it would change: all of it."""
    lines: list[ScreenLine] = []
    for name, value in call.more:
        lines += [[("dim", line)] for line in pieces(revealed(f"{name}: {value}"), width)]
    for file in call.preview or ():
        lines.append([("bold", cut(revealed(str(file.get("path", "")), is_line=True), width))])
        for line in str(file.get("diff", "")).split("\n"):
            style: Style = "green" if line.startswith("+") else "red" if line.startswith("-") else ""
            lines += [[(style, piece)] for piece in pieces(revealed(line), width)]
        if hidden := file.get("hiddenLines"):
            lines.append([("red", f"… {hidden:,} more lines of this difference are not here")])
    return lines


def _reason(ask: RowAsk, width: int) -> list[ScreenLine]:
    text = f"Asked because: {single_line(ask.reason)}" if ask.reason else ""
    return [[("yellow", line)] for line in wrapped(text, width, most=6)] if text else []


def _title(call: AskCall) -> str:
    return revealed(call.title, is_line=True)


def _header(look: Look) -> ScreenLine:
    counts, today = look.page.counts, look.today
    parts = [f"{counts.needs_you} need you", f"{counts.running} running"]
    if today.words:
        parts.append(f"{today.words} today")
    left_text, right = f"{' · '.join(parts)}", "? keys  q quit"
    room = look.width - columns(" harness  ") - columns(right) - 1
    left_text = cut(left_text, max(0, room))
    gap = " " * max(1, room - columns(left_text))
    return [("bold", " harness  "), ("yellow" if counts.needs_you else "", left_text), ("dim", gap + right)]


def _body(look: Look) -> tuple[list[ScreenLine], int]:
    """All lines of the list, and which of them has the cursor."""
    lines: list[ScreenLine] = []
    focus = 0
    if not look.page.rows:
        lines += [[("", "")], [("dim", cut("  no session yet: c starts a conversation", look.width))]]
    for heading, rows in _sections(look.page.rows):
        lines.append(_rule(heading, look.width))
        for row in rows:
            is_current = row.id == look.cursor
            focus = len(lines) if is_current else focus
            lines.append(_row_line(row, look, is_current=is_current))
            if is_current and row.asks:
                lines += _card(row, look)
            elif row.state in WORKS:
                lines += [_child_line(child, look) for child in row.children[:_MOST_CHILDREN]]
    return lines, focus


def _sections(rows: Sequence[InboxRow]) -> Iterator[tuple[str, Sequence[InboxRow]]]:
    needs = [row for row in rows if row.state in NEEDS_YOU]
    works = [row for row in rows if row.state in WORKS]
    if needs:
        yield f"NEEDS YOU {len(needs)}", needs
    if works:
        yield f"RUNNING {len(works)}", works
    rest: dict[str, list[InboxRow]] = {}
    for row in rows:
        if row.state not in NEEDS_YOU and row.state not in WORKS:
            rest.setdefault(row.project.name, []).append(row)
    for name, some in rest.items():
        yield f"EARLIER · {name}" if name else "EARLIER", some


def shown_order(rows: Sequence[InboxRow]) -> list[str]:
    """The ids of the rows in the order of the screen."""
    return [row.id for _heading, some in _sections(rows) for row in some]


def _rule(heading: str, width: int) -> ScreenLine:
    text = cut(single_line(heading), width - 1)
    return [("bold", text), ("dim", f" {'─' * (width - columns(text) - 1)}")]


def _row_line(row: InboxRow, look: Look, *, is_current: bool) -> ScreenLine:
    style, sign = STATE_SIGNS[row.state]
    title_width = max(10, min(60, look.width // 3))
    since = f"{when(row, look.now_ms):>6}"
    agent = agent_code(row) or "?"
    numbers = _numbers(row) if look.width >= 50 else ""
    room = look.width - 2 - title_width - 1 - 3 - 2 - columns(numbers) - columns(since) - 2
    mark = "▶ " if is_current else "  "
    title = _padded(single_line(row.title or row.id), title_width)
    title_style: Style = "bold" if is_current or row.is_unseen else ""
    return [
        ("cyan", mark),
        (title_style, title + " "),
        ("dim", _padded(single_line(agent), 2) + " "),
        (style, f"{sign} "),
        ("", _padded(_doing(row), max(0, room))),
        ("dim", f" {numbers} {since}"),
    ]


def _doing(row: InboxRow) -> str:
    """What it asks or does, or how it ended."""
    if row.asks:
        first = row.asks[0]
        more = f" (+{len(row.asks) - 1})" if len(row.asks) > 1 else ""
        who = f"{first.run_name}: " if first.run_name else ""
        return revealed(f"{who}{first.title}{more}", is_line=True)
    if row.state in WORKS and row.state != "background":
        return revealed(row.last_operation.text, is_line=True) if row.last_operation else "working"
    return ended_words(row)


def _numbers(row: InboxRow) -> str:
    return f"{cost_of(row):>7} {context_of(row):>5}"


def _child_line(child: RowChild, look: Look) -> ScreenLine:
    doing = revealed(child.last_operation.text, is_line=True) if child.last_operation else ""
    text = f"  └ {single_line(child.name)}  {doing}"
    since = age(look.now_ms - child.started_ms)
    return [("dim", _padded(text, look.width - columns(since) - 1) + f" {since}")]


def _card(row: InboxRow, look: Look) -> list[ScreenLine]:
    """The ask of the row under the cursor, with the keys that answer it."""
    ask, width = row.asks[0], look.width
    asking = look.asking or Asking(relay_of(ask))
    lines = _subject_lines(ask, width - 4, asking)
    shown_lines: list[ScreenLine] = [[("", f"    {line}")] for line in lines[:_ASK_LINES]]
    if not is_whole(row, ask, width - 4):
        rest = len(_details(ask, width)) + sum(len(_details(detail, width)) + 1 for detail in ask.further)
        count = max(0, len(lines) - _ASK_LINES) + rest
        more = f"{count:,} more lines" if not ask.is_cut else "it is longer than this"
        shown_lines.append([("yellow", cut(f"    … {more}: v shows all of it", width))])
    if has_marks(ask):
        shown_lines.append([("red", cut("    ‼ characters that cannot be seen or look like others", width))])
    shown_lines += [[(style, f"    {text}") for style, text in line] for line in _reason(ask, width - 4)]
    return [*shown_lines, *_answers(ask, width, asking, indent="    ")]


def _subject_lines(ask: RowAsk, width: int, asking: Asking) -> list[str]:
    text = asking.question if ask.kind in ("question", "tool") else ask.subject
    return _call_subject(ask, width, plan_text(ask) if ask.kind == "plan" else text)


def _call_subject(call: AskCall, width: int, text: str) -> list[str]:
    lines = pieces(revealed(text), max(10, width - 2))
    return [f"{'$ ' if is_command(call) and not number else '  '}{line}" for number, line in enumerate(lines)]


def _asks_to(ask: RowAsk) -> str:
    who = f"{ask.run_name} " if ask.run_name else ""
    return revealed(f"{who}asks to {ask.title}", is_line=True)


def _answers(ask: RowAsk, width: int, asking: Asking, indent: str = "") -> list[ScreenLine]:
    """Wrapped, never cut: what an answer allows is read before it is given."""
    room = max(10, width - len(indent) - 2)
    shown_lines: list[ScreenLine] = []
    for text in answer_lines(ask, asking):
        for number, piece in enumerate(pieces(text, room)):
            shown_lines.append([("bold", f"{indent}{'  ' if number else ''}{piece}")])
    return shown_lines


def answer_lines(ask: RowAsk, asking: Asking) -> list[str]:
    """What each key would answer, in full."""
    if ask.kind == "permission":
        always = [
            f"{key} {label} (in this conversation)"
            for key, (_id, label) in options_of(ask).items()
            if key != "y"
        ]
        why_not = [f"(no always: {ask.no_always_why})"] if ask.no_always_why else []
        return ["y once   n no   e no, because …", *always, *why_not]
    if ask.kind == "plan":
        return ["y approve   n send back   e what to change …"]
    labels = (revealed(label, is_line=True) for label in asking.options[:9])
    return [
        *(f"{number} {label}" for number, label in enumerate(labels, 1)),
        "e your own words …   n no answer",
    ]


def _padded(text: str, width: int) -> str:
    shown_text = cut(text, width)
    return shown_text + " " * max(0, width - columns(shown_text))
