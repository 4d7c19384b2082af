"""What a run asks, as lines: a box with the keys that answer it, two lines below a row, or all of it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.clients.inbox.key_answers import has_marks, is_command, options_of, plan_text
from harness.clients.inbox.typed_answers import Asking
from harness.folds.inbox.row import AskCall, InboxRow, RowAsk
from harness.formatting.amounts import age
from harness.formatting.approval import lines_of
from harness.formatting.columns import pieces, wrapped
from harness.formatting.escapes import neutralised, revealed
from harness.tui.lines import StyledPiece, TextLine, fitted, length
from harness.tui.rows import home_path

_QUESTIONS = {"plan": "is this plan good?", "question": "it asks", "tool": "it waits for an answer"}
_ALL = 10_000
_INLINE_YES: tuple[StyledPiece, ...] = (("", "    "), ("key", "y"), ("", " once"))
_INLINE_NO: tuple[StyledPiece, ...] = (
    ("", "  "),
    ("key", "n"),
    ("", " no  "),
    ("key", "e"),
    ("", " because …"),
)


# How it looks


def is_shown_whole(row: InboxRow, ask: RowAsk, asking: Asking, width: int, most: int) -> bool:
    """Whether the box shows everything that is asked."""
    return not ask.is_cut and len(body_lines(row, ask, asking, width - 6)) <= _room(row, ask, width, most)


def _room(row: InboxRow, ask: RowAsk, width: int, most: int) -> int:
    """How many lines of a box are left for what is asked."""
    return max(most - len(answer_lines(row, ask, width - 6)) - 3, 1)


def box(row: InboxRow, ask: RowAsk, asking: Asking, width: int, now_ms: int, most: int) -> list[TextLine]:
    """The ask in a frame, in at most so many lines."""
    inner = width - 6
    answers = answer_lines(row, ask, inner)
    room = _room(row, ask, width, most)
    body = body_lines(row, ask, asking, inner)
    is_cut = ask.is_cut or len(body) > room
    if is_cut:
        more = f"{len(body) - room + 1:,} more lines" if len(body) >= room else "It is longer than this"
        body = [*body[: room - 1], [("yellow", f"… {more}: v view in full")]]
    waits = f" waits {age(now_ms - ask.asked_ms)} ──╮ " if ask.asked_ms else " ──╮ "
    number = f" 1 of {len(row.asks)} " if len(row.asks) > 1 else ""
    heading = fitted([("yellow", f" ╭─ {title(ask)} {number}")], width - len(waits))
    line_filled: StyledPiece = ("yellow", "─" * (width - len(waits) - length(heading)))
    lines: list[TextLine] = [[*heading, line_filled, ("yellow", waits)]]
    gap: list[TextLine] = [()] if not is_cut and len(body) + len(answers) + 3 <= most else []
    lines += [_framed(line, width) for line in (*body, *gap, *answers)]
    return [*lines, [("yellow", f" ╰{'─' * (width - 4)}╯ ")]]


def title(ask: RowAsk) -> str:
    who = f"{ask.run_name}: " if ask.run_name else ""
    if ask.kind != "permission":
        return f"{who}{_QUESTIONS[ask.kind]}"
    return f"{who}may it {'run this' if is_command(ask) else ask.title or 'do this'}?"


def body_lines(row: InboxRow, ask: RowAsk, asking: Asking, width: int) -> list[TextLine]:
    """What it wants, all of it."""
    if ask.kind in ("question", "tool"):
        question_lines = asking.text().removeprefix("? ").split("\n")
        return [
            [("" if at else "bold", piece)]
            for at, line in enumerate(question_lines)
            for piece in _wrap(line, width)
        ]
    if ask.kind == "plan":
        return [[("", piece)] for piece in _wrap(neutralised(plan_text(ask)), width)]
    lines = _call_lines(row, ask, width)
    for number, call in enumerate(ask.further, 2):
        lines += [
            (),
            [("yellow", f"{number} of {len(ask.further) + 1}: {revealed(call.title, is_line=True)}")],
        ]
        lines += _call_lines(row, call, width)
    if ask.reason:
        lines += [[("yellow", piece)] for piece in _wrap(f"Asked because: {neutralised(ask.reason)}", width)]
    if has_marks(ask):
        lines.append(
            [("yellow", "It has characters that cannot be seen or look like others: they are spelled out.")]
        )
    return lines


def _call_lines(row: InboxRow, call: AskCall, width: int) -> list[TextLine]:
    """All of one call."""
    lines = _subject(call, width)
    for line in lines_of({}, call.preview) if call.preview else ():
        lines += [[(_diff_style(line), piece)] for piece in pieces(line, width)]
    for name, value in call.more:
        lines += [[("dim", piece)] for piece in pieces(revealed(f"{name}: {value}"), width)]
    return [*lines, [("dim", f"in {revealed(home_path(call.cwd or row.cwd), is_line=True)}")]]


def _subject(ask: AskCall, width: int) -> list[TextLine]:
    """With every mark as its label."""
    raw = ask.subject.encode("utf-16-le", "surrogatepass")
    out, at = [], 0
    for mark in sorted(ask.marks, key=lambda mark_data: int(mark_data["start"])):
        start, end = 2 * int(mark["start"]), 2 * int(mark["end"])
        if start >= at:
            out += [raw[at:start].decode("utf-16-le", "replace"), str(mark.get("label") or mark["kind"])]
            at = end
    text = revealed("".join([*out, raw[at:].decode("utf-16-le", "replace")]))
    lead = "$ " if is_command(ask) else ""
    broken = pieces(text, max(width - len(lead), 10))
    return [[("bold", f"{lead if at == 0 else ' ' * len(lead)}{piece}")] for at, piece in enumerate(broken)]


def answer_lines(row: InboxRow, ask: RowAsk, width: int) -> list[TextLine]:
    """The keys, with all that each of them allows."""
    if not row.can.answer:
        return [[("dim", "It cannot be answered from here.")]]
    view: list[StyledPiece] = [("key", "v"), ("", " view in full")]
    because: list[StyledPiece] = [("key", "e"), ("", " no, because …  ")]
    if ask.kind in ("question", "tool"):
        numbers: list[StyledPiece] = [("key", "1–9"), ("", " choose   ")] if _has_options(ask) else []
        return [[*numbers, ("key", "e"), ("", " your own words   "), *view]]
    if ask.kind == "plan":
        plan = (("y", " approve   "), ("n", " send back   "), ("e", " what to change …   "))
        return [[*(part for key, words in plan for part in (("key", key), ("", words))), *view]]
    options = options_of(ask)
    yes: list[StyledPiece] = [
        ("key", "y"),
        ("", " once   " if not has_marks(ask) else " once, after another look   "),
    ]
    always = [
        line for key, (_, words) in options.items() if key != "y" for line in _key_lines(key, words, width)
    ]
    lines: list[TextLine] = [yes, *always]
    if len(always) == 1 and length([*yes, *always[0]]) <= width:
        lines = [[*yes, *always[0]]]
    if ask.no_always_why and not always:
        lines.append([("dim", f'no "always": {ask.no_always_why}')])
    return [*lines, [("key", "n"), ("", " no     "), *because, *view]]


def _key_lines(key: str, words: str, width: int) -> list[TextLine]:
    """What a key allows, all of it."""
    first, *rest = _wrap(words, width - 2)
    return [[("key", key), ("blue", f" {first}")], *([("blue", f"  {line}")] for line in rest)]


def fits_inline(ask: RowAsk, width: int) -> bool:
    """Whether two lines below a row show all of it, so that it can be answered there."""
    is_simple = ask.kind in ("permission", "question") and not (ask.marks or ask.preview or ask.more)
    is_simple = is_simple and not (ask.is_cut or ask.further)
    return is_simple and length([_inline_subject(ask)]) <= width and not _has_several(ask)


def inline_keys(ask: RowAsk, width: int) -> str:
    """The keys that answer it there: only those whose effect is shown beside them."""
    if not fits_inline(ask, width):
        return ""
    return "".join(key for key in "yan123456789e" if key != "a" or _inline_always(ask, width))


def inline_lines(ask: RowAsk, width: int) -> tuple[TextLine, TextLine]:
    """The ask in two lines, below a row of the list."""
    first: TextLine = [_inline_subject(ask)]
    if not fits_inline(ask, width):
        return first, [("", "    "), ("key", "↵"), ("", " look at it, then answer")]
    if ask.kind != "permission":
        numbers: list[StyledPiece] = [("key", "1–9"), ("", " choose  ")] if _has_options(ask) else []
        return first, [
            ("", "    "),
            *numbers,
            ("key", "e"),
            ("", " your own words  "),
            ("key", "v"),
            ("", " view"),
        ]
    return first, [*_INLINE_YES, *_inline_always(ask, width), *_INLINE_NO]


def _inline_subject(ask: RowAsk) -> StyledPiece:
    return (
        "bold",
        f"    {'$ ' if is_command(ask) else ''}{revealed(ask.subject or ask.question, is_line=True)}",
    )


def _inline_always(ask: RowAsk, width: int) -> list[StyledPiece]:
    words = [words for key, (_, words) in options_of(ask).items() if key == "a"]
    parts: list[StyledPiece] = [("", "  "), ("key", "a"), ("blue", f" {words[0]}")] if words else []
    return parts if length([*_INLINE_YES, *parts, *_INLINE_NO]) <= width else []


def full_lines(row: InboxRow, ask: RowAsk, asking: Asking, width: int) -> list[TextLine]:
    """Everything that is known of it, for `v`."""
    lines: list[TextLine] = [[("yellow", title(ask))], ()]
    if ask.why:
        lines += [*([("dim", piece)] for piece in _wrap(neutralised(ask.why), width)), ()]
    lines += body_lines(row, ask, asking, width)
    facts = (("tool", ask.tool_name), ("asked by", ask.run_name), ("run", ask.run_id), ("call", ask.call_id))
    lines += [(), *([("dim", f"{name}: {revealed(value, is_line=True)}")] for name, value in facts if value)]
    return lines


def _has_options(ask: RowAsk) -> bool:
    payload = ask.payload if isinstance(ask.payload, dict) else {}
    return bool(ask.options or payload.get("options") or payload.get("questions"))


def _has_several(ask: RowAsk) -> bool:
    """Whether it asks more than one question at once."""
    several = ask.payload.get("questions") if isinstance(ask.payload, dict) else None
    return isinstance(several, list) and len(several) > 1


def _framed(line: TextLine, width: int) -> TextLine:
    inner = fitted(line, width - 6)
    return [("yellow", " │ "), *inner, ("", " " * (width - 6 - length(inner))), ("yellow", " │ ")]


def _wrap(text: str, width: int) -> Sequence[str]:
    return [piece for line in text.split("\n") for piece in wrapped(line, max(width, 10), most=_ALL)]


def _diff_style(line: str) -> str:
    mark = line.lstrip()[:1]
    return {"+": "green", "-": "red"}.get(mark, "dim" if line.startswith("  ") else "")
