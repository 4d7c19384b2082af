"""Which files a patch of `apply_patch` changes, and how."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.events.operation import Write
from harness.formats.patches import operations_of_patch

PATCH = """*** Begin Patch
*** Add File: src/new.py
+*** Add File: only text
+print("x")
*** Update File: src/util.py
@@ def f():
 *** Delete File: only context
-    return 1
+    return 2
*** Update File: src/old.py
*** Move to: src/moved.py
@@
-a
+b
*** Delete File: gone.py
*** End Patch
"""


def test_each_file_is_one_write_in_order() -> None:
    assert operations_of_patch(PATCH) == [
        Write(path="src/new.py", change="create"),
        Write(path="src/util.py", change="update"),
        Write(path="src/old.py", change="move"),
        Write(path="src/moved.py", change="create"),
        Write(path="gone.py", change="delete"),
    ]


def test_paths_are_joined_with_the_directory() -> None:
    paths = [write.path for write in operations_of_patch(PATCH, "/w")]

    assert paths == ["/w/src/new.py", "/w/src/util.py", "/w/src/old.py", "/w/src/moved.py", "/w/gone.py"]


def test_numbered_hunks_give_the_lines() -> None:
    patch = "*** Update File: a\n@@ -1,4 +1,5 @@\n x\n@@ -20 +21,3 @@ def f():\n*** Update File: b\n@@ -9,2 +9,0 @@\n"

    assert operations_of_patch(patch) == [
        Write(path="a", change="update", start_line=1, end_line=23),
        Write(path="b", change="update", start_line=9, end_line=9),
    ]


def test_a_file_named_twice_is_one_write() -> None:
    twice = "*** Update File: a\n+x\n*** Update File: b\n*** Update File: a\n+y\n"
    replaced = "*** Delete File: a\n*** Add File: a\n+x\n"

    assert [write.path for write in operations_of_patch(twice)] == ["a", "b"]
    assert operations_of_patch(replaced) == [Write(path="a", change="update")]


def test_carriage_returns_and_missing_frames_do_not_matter() -> None:
    assert operations_of_patch("*** Add File:  a b \r\n+x\r\n") == [Write(path="a b", change="create")]


def test_what_is_no_patch_changes_nothing() -> None:
    for text in ("", "hello", "*** Add File:", "*** Move to: ", "@@ -1 +1 @@"):
        assert operations_of_patch(text) == []


@given(st.lists(st.sampled_from([*PATCH.split("\n"), "@@ -1,2 +3,4 @@", "*** Move to: m", "*** Add File:"])))
def test_no_order_of_lines_is_too_odd(lines: list[str]) -> None:
    writes = operations_of_patch("\n".join(lines), "/w")

    assert len({write.path for write in writes}) == len(writes)
    assert all(write.change for write in writes)
