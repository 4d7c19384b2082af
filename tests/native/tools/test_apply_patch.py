"""Patches: what they do, how they find their place, and that they do all or nothing."""

from __future__ import annotations

import os

import pytest

from harness.contracts.tool import ToolFailure
from harness.events.operation import Write
from harness.native.tools.apply_patch import ApplyPatchTool, parse, patched
from harness.native.tools.read import ReadTool
from tool_kit import Bench


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def updated(text: str, *lines: str) -> str:
    (file,) = parse(patch("*** Update File: f", *lines))
    return patched(text, file.hunks, "f")


def applied(bench: Bench, *lines: str) -> list[Write]:
    for name in os.listdir(bench.root):
        if (bench.root / name).is_file():
            bench.files.read(str(bench.root / name))
    output = bench.call(ApplyPatchTool(bench.workspace), patch=patch(*lines))
    return [operation for operation in output.operations or [] if isinstance(operation, Write)]


def test_files_are_added_changed_moved_and_deleted_at_once(bench: Bench) -> None:
    bench.write("a.py", "def greet():\n    return 'hi'\n\n\ndef leave():\n    return 'bye'\n")
    bench.write("old.py", "x = 1\n")
    bench.write("gone.py", "y\n")
    done = applied(
        bench,
        *("*** Update File: a.py", "@@ def leave():", "-    return 'bye'", "+    return 'see you'"),
        *("*** Update File: old.py", "*** Move to: sub/new.py", "@@", "-x = 1", "+x = 2"),
        *("*** Delete File: gone.py", "*** Add File: notes.md", "+one", "+two"),
    )
    assert bench.text("a.py").endswith("def leave():\n    return 'see you'\n")
    assert bench.text("sub/new.py") == "x = 2\n"
    assert bench.text("notes.md") == "one\ntwo\n"
    assert sorted(os.listdir(bench.root)) == ["a.py", "notes.md", "sub"]
    root = str(bench.root)
    assert done == [
        Write(path=f"{root}/a.py", change="update", start_line=6, end_line=6),
        Write(path=f"{root}/old.py", change="move"),
        Write(path=f"{root}/sub/new.py", change="create", start_line=1, end_line=1),
        Write(path=f"{root}/gone.py", change="delete"),
        Write(path=f"{root}/notes.md", change="create", start_line=1, end_line=2),
    ]


def test_what_a_patch_will_do_is_known_before(bench: Bench) -> None:
    tool = ApplyPatchTool(bench.workspace)
    asked = {"patch": patch("*** Update File: a.py", "-x", "+y", "*** Delete File: b.py")}
    assert [(operation.path, operation.change) for operation in tool.operations(asked)] == [  # type: ignore[union-attr]
        (f"{bench.root}/a.py", "update"),
        (f"{bench.root}/b.py", "delete"),
    ]


def test_one_hunk_that_does_not_fit_leaves_everything_as_it_was(bench: Bench) -> None:
    bench.write("a.py", "one\n")
    bench.write("b.py", "two\n")
    bench.write("c.py", "three\n")
    for name in ("a.py", "b.py", "c.py"):
        bench.call(ReadTool(bench.workspace), filePath=name)
    said = bench.refused(
        ApplyPatchTool(bench.workspace),
        patch=patch(
            *("*** Update File: a.py", "-one", "+1", "*** Delete File: c.py", "*** Add File: d.py", "+x"),
            *("*** Update File: b.py", "-nothing like that", "+2"),
        ),
    )
    assert "b.py: these lines were not found" in said
    assert "nothing like that" in said
    assert {name: bench.text(name) for name in sorted(os.listdir(bench.root))} == {
        "a.py": "one\n",
        "b.py": "two\n",
        "c.py": "three\n",
    }


def test_a_disk_that_refuses_in_the_middle_leaves_everything_as_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("a.py", "one\n")
    bench.write("b.py", "two\n")
    replaced = os.replace
    count = 0

    def full(*args: object, **kwargs: object) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise OSError(28, "No space left on device")
        replaced(*args, **kwargs)  # type: ignore[arg-type]

    for name in ("a.py", "b.py"):
        bench.call(ReadTool(bench.workspace), filePath=name)
    monkeypatch.setattr(os, "replace", full)
    said = bench.refused(
        ApplyPatchTool(bench.workspace),
        patch=patch("*** Update File: a.py", "-one", "+1", "*** Update File: b.py", "-two", "+2"),
    )
    assert "not applied: no space left" in said
    assert (bench.text("a.py"), bench.text("b.py")) == ("one\n", "two\n")
    assert sorted(os.listdir(bench.root)) == ["a.py", "b.py"]


def test_files_that_were_not_read_or_have_changed_are_not_patched(bench: Bench) -> None:
    path = bench.write("a.py", "one\n")
    asked = patch("*** Update File: a.py", "-one", "+1")
    assert "read it first" in bench.refused(ApplyPatchTool(bench.workspace), patch=asked)
    bench.call(ReadTool(bench.workspace), filePath="a.py")
    path.write_text("one\nand more\n")
    assert "changed since" in bench.refused(ApplyPatchTool(bench.workspace), patch=asked)
    assert path.read_text() == "one\nand more\n"


def test_nothing_outside_of_the_workspace_is_patched(bench: Bench) -> None:
    (bench.outside / "a.py").write_text("one\n")
    (bench.root / "link").symlink_to(bench.outside)
    for path in ("../outside/a.py", str(bench.outside / "a.py"), "link/a.py"):
        bench.files.read(str(bench.outside / "a.py"))
        for lines in (
            (f"*** Update File: {path}", "-one", "+1"),
            (f"*** Delete File: {path}",),
            (f"*** Add File: {path}2", "+x"),
            ("*** Add File: in.py", "+x", "*** Update File: in.py", f"*** Move to: {path}3", "-x", "+y"),
        ):
            assert "outside" in bench.refused(ApplyPatchTool(bench.workspace), patch=patch(*lines))
    assert os.listdir(bench.outside) == ["a.py"]
    assert os.listdir(bench.root) == ["link"]


def test_existing_files_are_not_added_over_nor_moved_over(bench: Bench) -> None:
    bench.write("a.py", "one\n")
    bench.write("b.py", "two\n")
    for name in ("a.py", "b.py"):
        bench.call(ReadTool(bench.workspace), filePath=name)
    tool = ApplyPatchTool(bench.workspace)
    assert "exists already" in bench.refused(tool, patch=patch("*** Add File: a.py", "+x"))
    move = patch("*** Update File: a.py", "*** Move to: b.py", "-one", "+1")
    assert "exists already" in bench.refused(tool, patch=move)


def test_a_binary_file_can_be_deleted_but_not_changed(bench: Bench) -> None:
    (bench.root / "a.bin").write_bytes(b"\0\1")
    bench.files.read(str(bench.root / "a.bin"))
    tool = ApplyPatchTool(bench.workspace)
    assert "binary" in bench.refused(tool, patch=patch("*** Update File: a.bin", "-x", "+y"))
    applied(bench, "*** Delete File: a.bin")
    assert os.listdir(bench.root) == []


def test_a_file_may_be_named_twice(bench: Bench) -> None:
    bench.write("a.py", "one\ntwo\n")
    (done,) = applied(
        bench, "*** Update File: a.py", "-one", "+1", "*** Update File: a.py", "-two", "+2", "+3"
    )
    assert bench.text("a.py") == "1\n2\n3\n"
    assert (done.start_line, done.end_line) == (1, 3)


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        ("a\nb\nc\n", (" a", "-b", "+B", " c"), "a\nB\nc\n"),
        ("a\nb\na\nb\n", ("@@", "-b", "+1", "@@", "-b", "+2"), "a\n1\na\n2\n"),
        ("f:\n x\ng:\n x\n", ("@@ g:", "- x", "+ y"), "f:\n x\ng:\n y\n"),
        ("A:\n f:\n  x\nB:\n f:\n  x\n", ("@@ B:", "@@  f:", "-  x", "+  y"), "A:\n f:\n  x\nB:\n f:\n  y\n"),
        ("g:\n x\n", ("@@ g:", " g:", "- x", "+ y"), "g:\n y\n"),
        ("x\nend\nx\n", ("-x", "+y", "*** End of File"), "x\nend\ny\n"),
        ("a\n", ("+b",), "a\nb\n"),
        ("f:\ng:\n", ("@@ f:", "+ new"), "f:\n new\ng:\n"),
        ("", ("+a",), "a\n"),
        ("a", ("-a", "+b"), "b"),
        ("a\n", ("-a",), ""),
        ("a  \nb\t\n", (" a", "-b", "+c"), "a  \nc\n"),
        ("    a\n    b\n", (" a", "-b", "+    c"), "    a\n    c\n"),
        (
            "say \u201chi\u201d \u2014 now\nb\n",
            (' say "hi" - now', "-b", "+c"),
            "say \u201chi\u201d \u2014 now\nc\n",
        ),
        ("a\nb\n", (" a", "-b", "+c", ""), "a\nc\n"),
        ("a\n\nb\n", (" a", "", "-b", "+c"), "a\n\nc\n"),
        ("x\ny\n", ("@@ -1,2 +1,2 @@", "-x", "+z"), "z\ny\n"),
    ],
)
def test_a_hunk_finds_its_place(text: str, lines: tuple[str, ...], expected: str) -> None:
    assert updated(text, *lines) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must begin"),
        ("*** Begin Patch\n*** Add File: a\n+x", "must begin"),
        (patch(), "changes no file"),
        (patch("+x"), "line 2 of the patch"),
        (patch("*** Add File: a", "x"), "beginning with"),
        (patch("*** Add File:", "+x"), "no file is named"),
        (patch("*** Update File: a"), "says no change"),
        (patch("*** Update File: a", "@@", "what"), "line 4 of the patch"),
        (patch("*** Delete File: a", "-x"), "has no lines"),
    ],
)
def test_a_malformed_patch_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(ToolFailure, match=said):
        parse(text)


def test_a_missing_anchor_is_named(bench: Bench) -> None:
    with pytest.raises(ToolFailure, match="no line 'class Nowhere'"):
        updated("a\n", "@@ class Nowhere", "-a", "+b")


def test_line_ends_and_marks_of_a_patched_file_stay(bench: Bench) -> None:
    (bench.root / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    applied(bench, "*** Update File: a.txt", " one", "-two", "+2", "+3")
    assert (bench.root / "a.txt").read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n3\r\n"


CHANGE = "*** Begin Patch\n*** Update File: a.py\n-one\n+1\n*** End Patch"


@pytest.mark.parametrize(
    "arguments",
    [
        {"patch": f"```\n{CHANGE}\n```"},
        {"patch": f"```diff\n{CHANGE}\n```\n"},
        {"patch": f"<<'EOF'\n{CHANGE}\nEOF"},
        {"patch": f"apply_patch <<EOF\n{CHANGE}\nEOF\n"},
        {"patch": f'apply_patch <<"PATCH"\r\n{CHANGE}\r\nPATCH'},
        {"input": CHANGE},
    ],
)
def test_what_models_wrap_around_a_patch_does_no_harm(bench: Bench, arguments: dict[str, str]) -> None:
    path = bench.write("a.py", "one\n")
    bench.files.read(str(path))
    tool = ApplyPatchTool(bench.workspace)
    assert tool.operations(arguments) == [Write(path=str(path), change="update")]
    assert tool.permission(arguments).params is not None
    bench.call(tool, **arguments)
    assert bench.text("a.py") == "1\n"


def test_a_patch_within_other_words_is_refused(bench: Bench) -> None:
    said = bench.refused(ApplyPatchTool(bench.workspace), patch=f"cd src && apply_patch <<EOF\n{CHANGE}\nEOF")
    assert "must begin with" in said


@pytest.mark.parametrize(
    ("text", "lines", "said"),
    [
        ("a\nx\nb\nx\n", ("-x", "+y"), "2 times, at the lines 2, 4"),
        ("a\nx \nb\nx \n", ("-x", "+y"), "2 times"),
        (
            "def f\n x\ndef f\n x\n",
            ("@@ def f", "- x", "+ y"),
            "the line 'def f' (named by @@) stands there 2 times",
        ),
    ],
)
def test_a_hunk_that_fits_in_several_places_is_refused(text: str, lines: tuple[str, ...], said: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        updated(text, *lines)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        ("class A\n x\nclass B\n x\n", ("@@ class B", "- x", "+ y"), "class A\n x\nclass B\n y\n"),
        ("class A\n x\nclass B\n x\n", ("@@ class A", "- x", "+ y"), "class A\n y\nclass B\n x\n"),
        ("x\nx\n", ("-x", "+y", "*** End of File"), "x\ny\n"),
    ],
)
def test_a_line_that_is_named_decides_which_place_is_meant(
    text: str, lines: tuple[str, ...], expected: str
) -> None:
    assert updated(text, *lines) == expected
