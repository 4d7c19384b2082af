"""A row of the inbox as lines of a terminal: who, what it does, what it costs, since when."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from harness.clients.inbox.labels import (
    STATE_SIGNS,
    STATE_WORDS,
    agent_code,
    changes_of,
    context_of,
    cost_of,
    ended_words,
    refusals_of,
    when,
)
from harness.folds.inbox.row import NEEDS_YOU, WORKS, InboxRow, RowChild
from harness.formatting.amounts import age
from harness.formatting.columns import cut
from harness.formatting.escapes import single_line
from harness.tui.lines import StyledPiece, TextLine, aligned, fitted, length, rule

_WIDE = 56
"""From this width on, cost and context are shown."""
_NARROW_TITLE, _WIDE_TITLE, _WIDEST_TITLE = 18, 21, 48
UNKNOWN = "–"


class ListEntry(NamedTuple):
    """A line of the list before it is drawn."""

    kind: Literal["heading", "row", "child", "subject", "answers"]
    row: InboxRow | None = None
    heading: TextLine = ()
    child: RowChild | None = None
    is_last: bool = False


def entries(
    rows: Sequence[InboxRow], sections: dict[str, str], selected: str, *, is_inline: bool
) -> list[ListEntry]:
    """The list. `sections`: rows that stay where they were, by id; `is_inline`: what the row at the cursor asks is
    shown below it.
    """
    groups: dict[str, list[InboxRow]] = {"needs": [], "running": []}
    for row in rows:
        groups.setdefault(sections.get(row.id) or section_of(row), []).append(row)
    list_entries: list[ListEntry] = []
    for section, members in groups.items():
        if not members:
            continue
        count = sum(
            section_of(row) == section for row in members
        )  # what was answered stays, and is not counted
        list_entries.append(ListEntry("heading", heading=_heading(section, count)))
        for row in members:
            list_entries.append(ListEntry("row", row))
            if is_inline and row.id == selected and row.asks:
                list_entries += [ListEntry("subject", row), ListEntry("answers", row)]
            children = [child for child in row.children if child.state in WORKS | NEEDS_YOU]
            list_entries += [
                ListEntry("child", row, child=child, is_last=child is children[-1]) for child in children
            ]
    return list_entries


def section_of(row: InboxRow) -> str:
    if row.state in NEEDS_YOU:
        return "needs"
    return "running" if row.state in WORKS else f"earlier · {row.project.name or row.cwd or 'no folder'}"


def _heading(section: str, count: int) -> TextLine:
    if section == "needs":
        return [("yellow", f"NEEDS YOU {count} ")]
    if section == "running":
        return [("cyan", f"RUNNING {count} ")]
    return [("dim", section.replace("earlier", "EARLIER", 1) + " ")]


def row_line(
    row: InboxRow, width: int, now_ms: int, *, is_selected: bool, words: str = ""
) -> list[StyledPiece]:
    """`words`: shown in place of its state, such as the answer that was just given."""
    room = _title_room(width)
    title = single_line(row.title[:200]) or row.id[:8]
    code = agent_code(row)
    lead: list[StyledPiece] = [
        ("bold", "▶ ") if is_selected else ("", "  "),
        ("bold" if row.is_unseen else "", f"{_padded(title, room)}"),
        ("", f"{code:<2} "),
        STATE_SIGNS[row.state],
        ("", " "),
    ]
    ends: list[StyledPiece] = []
    if width >= _WIDE and row.state not in NEEDS_YOU:
        ends.append(("dim", f"{_right(cost_of(row), 8)}{_right(context_of(row), 6)}"))
    at = when(row, now_ms) if not words else ""
    at = _right(at, 7) if width >= _WIDE else f" {at}" if at else ""
    ends.append(("dim" if row.state not in NEEDS_YOU else "", at))
    text = words or state_words(row, is_wide=width >= _WIDE)
    return aligned([*lead, ("green" if words else "", text)], [*ends, ("", " ")], width)


def _title_room(width: int) -> int:
    """Of what a wide list has left, half is for titles."""
    if width < _WIDE:
        return _NARROW_TITLE
    return min(_WIDE_TITLE + (width - _WIDE) // 2, _WIDEST_TITLE)


def child_line(entry: ListEntry, width: int, now_ms: int) -> list[StyledPiece]:
    child = entry.child
    assert child is not None
    room = _title_room(width) - 2
    bar = "└" if entry.is_last else "├"
    doing = (
        _doing(child.last_operation.text) if child.last_operation is not None else STATE_WORDS[child.state]
    )
    mark = STATE_SIGNS[child.state] if child.state in NEEDS_YOU else ("", " ")
    lead: list[StyledPiece] = [
        ("dim", f"  {bar} {_padded(single_line(child.name[:100]) or 'sub-agent', room)}   ")
    ]
    return aligned(
        [*lead, mark, ("dim", f" {doing}")],
        [("dim", f" {age(now_ms - child.started_ms)}"), ("", " ")],
        width,
    )


def heading_line(entry: ListEntry, width: int) -> list[StyledPiece]:
    return rule(entry.heading, width)


def state_words(row: InboxRow, *, is_wide: bool) -> str:
    """What it does, or how it ended."""
    ask = row.asks[0] if row.asks else None
    match row.state:
        case "needs-approval":
            title = ask.title if ask is not None else STATE_WORDS[row.state]
            verb = title.partition(" ")[0]
            doing = verb if title == "run a command" or not is_wide else _doing(title)
            return f"{doing} · {row.project.name}" if is_wide and row.project.name else doing
        case "asks":
            question = (ask.subject or ask.question) if ask is not None else ""
            return _one_line(question) if is_wide and question else "asks"
        case "running":
            return _doing(row.last_operation.text) if row.last_operation is not None else "running"
        case "lost" if not is_wide:
            return "lost"
        case _:
            return ended_words(row)


def head_lines(row: InboxRow, width: int, now_ms: int) -> list[TextLine]:
    """The head of the conversation: title, place, state and cost."""
    place = [row.agent or row.agent_name, row.model, home_path(row.cwd), row.branch or row.worktree]
    since = (
        f" {age(now_ms - row.state_since_ms)}"
        if row.state in NEEDS_YOU | WORKS and row.state_since_ms
        else ""
    )
    style, _ = STATE_SIGNS[row.state]
    state = ended_words(row) if row.failure is not None or row.limit is not None else STATE_WORDS[row.state]
    facts: list[StyledPiece] = [(style, f"{state}{since}")]
    if row.refused and row.failure is None:
        facts.append(("yellow", f" · {refusals_of(row)}"))
    facts += [("dim", f" · {fact}") for fact in _facts(row)]
    if changed := changes_of(row):
        added, _, removed = changed.rpartition(" ")
        facts += [("dim", " · "), ("green", added), ("red", f" {removed}")]
    if row.queued:
        facts.append(("dim", f" · {row.queued} queued"))
    agent = " ".join(single_line(part) for part in place[:2] if part)
    where = " · ".join(single_line(part) for part in (agent, *place[2:]) if part)
    return [
        fitted([("bold", f" {row.title or row.id}")], width),
        fitted([("dim", f" {where}")], width),
        fitted([("", " "), *facts], width),
        [("dim", "─" * width)],
    ]


def _facts(row: InboxRow) -> Iterator[str]:
    yield cost_of(row) or UNKNOWN
    if share := context_of(row):
        yield f"context {share}"


def home_path(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and (path == home or path.startswith(f"{home}/")) else path


def _doing(text: str) -> str:
    """An operation in few characters: `Edit src/cart/gift.ts` is `edit gift.ts`."""
    verb, _, rest = _one_line(text).partition(" ")
    if "/" in rest and " " not in rest:
        rest = rest.rstrip("/").rpartition("/")[2]
    return f"{verb.lower()} {rest}".strip()


def _one_line(text: str) -> str:
    return single_line(text[:300]).strip()


def _padded(text: str, width: int) -> str:
    text_shown = cut(text, width - 1)
    return text_shown + " " * (width - length([("", text_shown)]))


def _right(text: str, width: int) -> str:
    return " " * (width - length([("", text)])) + text
