"""Diffs of texts: what they say is true, and large ones are quick."""

from __future__ import annotations

import random
import time

from hypothesis import given
from hypothesis import strategies as st

from harness.folds.changes.lines import counts, lines_of, patch_of, regions, rows_of
from harness.folds.changes.patches import files_of_patch, is_patch

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "é"]), max_size=12)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@given(TEXTS, TEXTS)
def test_regions_lead_from_one_text_to_the_other(old: str, new: str) -> None:
    before, after = lines_of(old), lines_of(new)
    out: list[str] = []
    at = 0
    for region in regions(before, after):
        out += before[at : region.old_start] + after[region.new_start : region.new_end]
        at = region.old_end
    assert "".join([*out, *before[at:]]) == new


@given(TEXTS, TEXTS)
def test_rows_have_the_numbers_of_both_texts(old: str, new: str) -> None:
    before, after = old.split("\n"), new.split("\n")
    rows = rows_of(old, new)
    for row in rows:
        if row.kind in ("same", "removed"):
            assert before[(row.old or 0) - 1] == row.text
        if row.kind in ("same", "added"):
            assert after[(row.new or 0) - 1] == row.text
    added, removed = counts(old, new)
    assert sum(row.kind == "added" for row in rows) == added
    assert sum(row.kind == "removed" for row in rows) == removed


@given(TEXTS, TEXTS)
def test_a_patch_is_read_back_as_it_was_written(old: str, new: str) -> None:
    patch = patch_of("a b.txt", "a b.txt", old, new)
    if old == new:
        assert not is_patch(patch)
        return
    (file,) = files_of_patch(patch)
    text = old
    for hunk in file.hunks:
        lines = lines_of(text)
        first = max(0, (hunk.line or 1) - 1)
        count = len(lines_of(hunk.old))
        assert "".join(lines[first : first + count]) == hunk.old or not hunk.old
        text = "".join(lines[:first]) + hunk.new + "".join(lines[first + count :])
    assert text == new


def test_a_large_file_is_compared_quickly() -> None:
    chosen = random.Random(1)
    old = [f"line {number} {chosen.random()}\n" for number in range(50_000)]
    new = [line.upper() if chosen.random() < 0.02 else line for line in old]
    start = time.perf_counter()
    added, removed = counts("".join(old), "".join(new))
    assert added == removed > 500
    assert time.perf_counter() - start < 10


def test_the_place_of_a_hunk_names_the_function() -> None:
    lines = ["def total(cart):", *(f"    step_{number}()" for number in range(10))]
    old = "\n".join(lines) + "\n"
    place = rows_of(old, old.replace("step_9", "last"))[0]
    assert (place.kind, place.text, place.old, place.skipped) == ("place", "def total(cart):", 8, 7)


def test_names_with_odd_characters_are_quoted_as_git_does() -> None:
    patch = patch_of('a"\n.txt', 'a"\n.txt', None, "x\n")
    assert patch.splitlines()[0] == r'diff --git "a/a\"\012.txt" "b/a\"\012.txt"'
