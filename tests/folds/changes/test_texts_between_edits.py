"""From parts of texts to whole ones, forwards and backwards, and merges of two people's changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.folds.changes.edits import Edit, Passage
from harness.folds.changes.texts import ABSENT, applied, merged, undone, versions

WORDS = st.lists(st.sampled_from(["one", "two", "three", "four", "five"]), min_size=1, max_size=8)
TEXTS = st.builds(lambda words: "\n".join(words) + "\n", WORDS)


def passage(old: str, new: str, line: int | None = None, *, every: bool = False) -> Edit:
    return Edit(path="/w/a", change="update", passages=(Passage(old, new, every=every, line=line),))


@given(TEXTS, st.sampled_from(["one", "two", "five"]), st.sampled_from(["", "six", "two", "six\nseven"]))
def test_an_edit_that_is_undone_gives_the_text_before_it(text: str, old: str, new: str) -> None:
    edit = passage(old, new)
    after = applied(text, edit)
    if isinstance(after, str):
        before = undone(after, edit)
        assert before in (text, None)


def test_what_occurs_twice_is_not_guessed() -> None:
    assert applied("a\na\n", passage("a", "b")) is None
    assert undone("b\nb\n", passage("a", "b")) is None
    assert undone("b\nb\n", passage("a", "b", 2)) == "b\na\n"
    assert undone("b\n", passage("a", "b", every=True)) is None


def test_a_new_file_is_known_from_the_log_alone() -> None:
    edits = [Edit(path="/w/a", change="create", content="one\ntwo\n"), passage("two", "2")]
    assert versions(edits) == [ABSENT, "one\ntwo\n", "one\n2\n"]


def test_texts_follow_from_the_file_as_it_is_now() -> None:
    edits = [passage("a", "b"), passage("c", "d")]
    assert versions(edits, "b d\n") == ["a c\n", "b c\n", "b d\n"]
    assert versions(edits, "other text\n") == [None, None, None]


def test_a_short_passage_is_not_sought_in_a_file_that_was_changed_since() -> None:
    short, long = passage("a", "b"), passage("a", "a passage of some length")
    assert versions([short], "b\n", is_as_left=False) == [None, None]
    assert versions([long], "a passage of some length, mine\n", is_as_left=False)[0] == "a, mine\n"


def test_what_git_has_is_believed_only_if_all_edits_fit() -> None:
    edits = [passage("a", "b"), Edit(path="/w/a", change="update", content="new\n")]
    assert versions(edits, "new\n")[0] is None
    assert versions(edits, "new\n", ["a\n"]) == ["a\n", "b\n", "new\n"]
    assert versions([passage("x", "y")], "y there\n", ["something else\n"])[0] == "x there\n"
    assert versions([passage("x", "y", every=True)], "y\n", ["z\n"])[0] is None


def test_a_file_that_a_person_changed_too_is_known_as_the_agent_left_it() -> None:
    texts = versions([passage("x", "y")], "y\nand mine\n", ["x\n"], is_as_left=False)
    assert texts == ["x\n", "y\n"]


@given(TEXTS, TEXTS)
def test_a_merge_with_one_side_unchanged_is_the_other_side(base: str, other: str) -> None:
    assert merged(base, base, other) == other
    assert merged(base, other, base) == other
    assert merged(base, other, other) == other


def test_a_merge_has_both_changes_unless_they_meet() -> None:
    base = "1\n2\n3\n4\n5\n"
    assert merged(base, "1\nmine\n3\n4\n5\n", "1\n2\n3\ntheirs\n5\n") == "1\nmine\n3\ntheirs\n5\n"
    assert merged(base, "1\nmine\n3\n4\n5\n", "1\ntheirs\n3\n4\n5\n") is None
    assert merged(base, "1\n2\nmine\n3\n4\n5\n", "1\n2\n3\n4\n5\nend\n") == "1\n2\nmine\n3\n4\n5\nend\n"
