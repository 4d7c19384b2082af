"""Markdown as a terminal shows it: without its marks, and with all that it says."""

from __future__ import annotations

import random

import pytest

from harness.formatting.columns import columns
from harness.formatting.markdown_lines import MarkdownLines

TEXT = """\
# Backing **off**

The client waits *0.25 s*, then `pause_s(attempt)`; see [the guide](https://example.org/a) and <https://example.org>.

- first, a long item that does not fit into one line of this narrow terminal
  1. nested
- [ ] to do
- [x] done

> quoted

| attempt | pause | note |
|---|:-:|---|
| 1 | 0.25 s | `a\\|b` |
| 2 | **0.5 s** | |

```python
def pause(n):  # **not bold**
    return n
```
---
![A plot](data:image/png;base64,AAAABBBBCCCC) ![shot](https://example.org/s.png)
"""


def drawn(text: str, width: int = 48) -> list[str]:
    lines = MarkdownLines(width)
    return ["".join(part for _, part in line).rstrip() for line in [*lines.feed(text), *lines.end()]]


def styled(text: str) -> list[tuple[str, str]]:
    lines = MarkdownLines(80)
    return [part for line in [*lines.feed(text), *lines.end()] for part in line if part[1]]


def test_an_answer_is_drawn_and_not_spelled() -> None:
    assert drawn(TEXT) == [
        "Backing off",
        "",
        "The client waits 0.25 s, then pause_s(attempt);",
        "see the guide (https://example.org/a) and",
        "https://example.org.",
        "",
        "• first, a long item that does not fit into one",
        "  line of this narrow terminal",
        "  1. nested",
        "☐ to do",
        "☑ done",
        "",
        "│ quoted",
        "",
        "attempt │ pause  │ note",
        "────────┼────────┼─────",
        "1       │ 0.25 s │ a|b",
        "2       │ 0.5 s  │",
        "",
        "  def pause(n):  # **not bold**",
        "      return n",
        "─" * 40,
        "[picture: A plot] [picture: shot]",
        "https://example.org/s.png",
    ]


def test_marks_become_styles() -> None:
    assert styled("a **b** `c`") == [("", "a"), ("", " "), ("bold", "b"), ("", " "), ("cyan", "c")]
    assert styled("## head") == [("bold", "head")]


@pytest.mark.parametrize(
    "text", ["2 * 3 * 4", "snake_case_name and _x", "a | b", "**open", "`open", "\\*", "1.5"]
)
def test_what_is_no_mark_stays(text: str) -> None:
    assert drawn(text) == [text.replace("\\*", "*")]


def test_it_is_the_same_in_any_pieces_and_never_wider_than_the_terminal() -> None:
    chance = random.Random(7)
    for width in (10, 17, 48, 120):
        lines = MarkdownLines(width)
        found = []
        rest = TEXT
        while rest:
            cut = chance.randint(1, 9)
            found += lines.feed(rest[:cut])
            rest = rest[cut:]
        found += lines.end()
        assert ["".join(part for _, part in line).rstrip() for line in found] == drawn(TEXT, width)
        assert all(sum(columns(part) for _, part in line) <= max(width, 10) for line in found)


def test_a_table_without_room_loses_nothing() -> None:
    text = "| name | what |\n|---|---|\n| total | the sum of all prices times their counts |\n"
    lines = drawn(text, 24)
    words = " ".join(lines).split()
    assert {"name", "what", "total", "sum", "prices", "times", "their", "counts"} <= set(words)
    assert all(columns(line) <= 24 for line in lines)


def test_what_would_command_the_terminal_does_not() -> None:
    assert "\x1b" not in "".join(drawn("a \x1b[2J **b\x1b]0;x\x07**\n```\n\x1b[31m\n```"))


def test_a_text_that_ends_in_a_block_of_code_does_not_swallow_the_next() -> None:
    lines = MarkdownLines(40)
    lines.feed("```\ncode")
    lines.end()
    assert lines.feed("**bold**\n") == [[("", ""), ("bold", "bold")]]
