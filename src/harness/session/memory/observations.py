"""Observations as text: dated lines, in parts that never change once written.

For example:

Date: Dec 4, 2025
* 🔴 (14:30) What matters most
  * -> what came of it
* ✅ (14:50) What is done

--- message boundary (2025-12-04T15:02:11.000Z) ---

<observation-group id="…" range="first:last">
…
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from harness.session.memory.tokens import TokenCounter, estimated_tokens

HIGH, MEDIUM, LOW, DONE = "🔴", "🟡", "🟢", "✅"

_BOUNDARY = "--- message boundary ({}) ---"
_BOUNDARY_LINE = re.compile(r"\n*^--- message boundary \([^)\n]*\) ---$\n*", re.MULTILINE)
_GROUP = re.compile(
    r'<observation-group id="([^"\n]*)" range="([^"\n]*)">\n(.*?)\n</observation-group>', re.DOTALL
)
_GROUP_TAG = re.compile(r"^</?observation-group\b[^>\n]*>\n?", re.MULTILINE)
_GROUP_END = "</observation-group>"
_LIST_LINE = re.compile(r"\s*(?:[*•-]|\d+[.)])\s+\S")
_LABEL = re.compile(r"(?<=\s)\[[a-z][a-z0-9_:/, -]{0,40}\] ?(?!\()")
_LONGEST_LINE = 10_000
_WINDOW, _MOST_WINDOWS, _MOST_REPEATED = 200, 2_000, 0.4
_SHORTEST_DEGENERATE, _LONGEST_SANE_LINE = 2_000, 50_000


def iso(ms: int) -> str:
    """A timestamp as text, in UTC with milliseconds."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def appended(observations: str, text: str, observed_ms: int) -> str:
    """The observations with one more part, which begins at a boundary."""
    if not text.strip():
        return observations
    if not observations:
        return text
    return f"{observations}\n\n{_BOUNDARY.format(iso(observed_ms))}\n\n{text}"


def parts_of(observations: str) -> list[str]:
    """The observations, split at their boundaries."""
    return [part for part in _BOUNDARY_LINE.split(observations) if part.strip()]


def grouped(text: str, cycle_id: str, range_: str) -> str:
    """Wrap the text in a group with the range of its messages, for `recall`; unchanged without a range."""
    if not range_ or not text.strip():
        return text
    return f'<observation-group id="{cycle_id}" range="{range_}">\n{text.strip()}\n{_GROUP_END}'


def ungrouped(text: str) -> str:
    return _GROUP_TAG.sub("", text)


def ranges_in(text: str) -> list[str]:
    return [match[2] for match in _GROUP.finditer(text)]


def regrouped(reflection: str, source: str, cycle_id: str) -> str:
    """Wrap a reflection that lost the groups of its source in one group."""
    ranges = ranges_in(source)
    if not ranges or ranges_in(reflection):
        return reflection
    first, last = ranges[0].partition(":")[0], ranges[-1].rpartition(":")[2]
    return grouped(ungrouped(reflection), cycle_id, f"{first}:{last}")


def sectioned(text: str, thread_id: str) -> str:
    """Mark the text with its thread, in a memory of several threads."""
    return f'<thread id="{thread_id}">\n{text}\n</thread>' if thread_id and text.strip() else text


def tail_after(observations: str, lines: int) -> str:
    """The text after that many lines, without a leading boundary."""
    tail = "\n".join(observations.split("\n")[lines:])
    return (
        _BOUNDARY_LINE.sub("", tail.lstrip("\n"), count=1)
        if _begins_with_boundary(tail)
        else tail.strip("\n")
    )


def _begins_with_boundary(text: str) -> bool:
    match = _BOUNDARY_LINE.search(text)
    return match is not None and not text[: match.start()].strip()


def oldest_lines(observations: str, tokens: int, count: TokenCounter = estimated_tokens) -> int:
    """How many lines, counted from the first, make up that many tokens; groups are not split."""
    taken_count, is_inside, last_outside = 0, False, 0
    for number, line in enumerate(observations.split("\n"), 1):
        taken_count += count(line)
        if line.startswith("<observation-group"):
            is_inside = True
        elif line == _GROUP_END:
            is_inside = False
        if taken_count > tokens and not is_inside:
            return last_outside or number
        if not is_inside:
            last_outside = number
    return last_outside or observations.count("\n") + 1


def shortened(observations: str, tokens: int, count: TokenCounter = estimated_tokens) -> str:
    """The newest lines within a budget, plus important older ones; gaps state their size."""
    lines = [line for line in ungrouped(observations).split("\n") if line.strip()]
    sizes = [count(line) + 1 for line in lines]
    if sum(sizes) <= tokens:
        return observations
    important = [number for number, line in enumerate(lines) if HIGH in line or DONE in line]
    tail, tokens_spent = 0, 0
    while tail < len(lines) and tokens_spent + sizes[-tail - 1] <= tokens:
        tail += 1
        tokens_spent += sizes[-tail]
    while tail:
        first = len(lines) - tail
        older = [number for number in important if number < first][-tail:]
        if tokens_spent + sum(sizes[number] for number in older) <= tokens:
            return _with_gaps(lines, [*older, *range(first, len(lines))])
        tokens_spent -= sizes[first]
        tail -= 1
    return _with_gaps(lines, [])


def _with_gaps(lines: list[str], shown_lines: Iterable[int]) -> str:
    out: list[str] = []
    expected = 0
    for number in [*shown_lines, len(lines)]:
        if number > expected:
            out.append(f"[{number - expected} observations truncated here]")
        if number < len(lines):
            out.append(lines[number])
        expected = number + 1
    return "\n".join(out)


def list_lines(text: str) -> str:
    """Only list items and the dates between them; other text is dropped."""
    lines = [line for line in text.split("\n") if _LIST_LINE.match(line) or line.startswith("Date:")]
    return "\n".join(lines) if any(_LIST_LINE.match(line) for line in lines) else ""


def with_short_lines(text: str) -> str:
    if len(text) <= _LONGEST_LINE:
        return text
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}… [truncated]"
        for line in text.split("\n")
    )


def is_degenerate(text: str) -> bool:
    """Whether the model's output is stuck in a repetition."""
    if len(text) < _SHORTEST_DEGENERATE:
        return False
    if max(map(len, text.split("\n"))) > _LONGEST_SANE_LINE:
        return True
    last = len(text) - _WINDOW
    step = max(1, -(-last // _MOST_WINDOWS))
    windows = [text[start : start + _WINDOW] for start in range(0, last + 1, step)]
    return len(windows) - len(set(windows)) > len(windows) * _MOST_REPEATED


def for_the_model(text: str) -> str:
    """The text without the markers that are only for writing observations."""
    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip(" "))]
        body = line[len(indent) :].replace(MEDIUM, "").replace(LOW, "").replace("->", "").replace("→", "")
        body = _LABEL.sub("", body)
        lines.append(indent + re.sub(r" {2,}", " ", body).strip(" "))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
