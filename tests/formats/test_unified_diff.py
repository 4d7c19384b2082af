"""Which lines a unified diff changes."""

from __future__ import annotations

from harness.formats.patches import changed_lines


def test_the_lines_around_a_change_do_not_count() -> None:
    assert changed_lines("--- a\n+++ a\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n") == (2, 2)


def test_several_hunks_span_from_the_first_change_to_the_last() -> None:
    assert changed_lines("@@ -1,2 +1,3 @@\n a\n+b\n c\n@@ -9 +10,2 @@\n x\n+y\n") == (2, 11)


def test_lines_taken_out_stand_where_the_next_one_is() -> None:
    assert changed_lines("@@ -4,3 +4,1 @@\n a\n-b\n-c\n") == (5, 5)


def test_a_new_file_is_changed_from_its_first_line_on() -> None:
    assert changed_lines("@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n") == (1, 2)


def test_the_heads_of_the_next_file_are_no_changes() -> None:
    assert changed_lines("@@ -1 +1 @@\n-a\n+b\n--- c\n+++ c\n") == (1, 1)


def test_what_is_no_diff_changes_nothing() -> None:
    assert changed_lines("") is None
    assert changed_lines("-a\n+b\n@@ odd @@\n+c") is None
