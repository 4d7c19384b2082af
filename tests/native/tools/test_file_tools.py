"""Reading, writing and editing files: what is shown, what is changed, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from pathlib import Path

import pytest

from harness.events.operation import Read, Write
from harness.native.tools import read as read_module
from harness.native.tools.apply_patch import ApplyPatchTool
from harness.native.tools.edit import EditTool
from harness.native.tools.read import ReadTool
from harness.native.tools.write import WriteTool
from tool_kit import Bench

PNG = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


# read


def test_lines_are_numbered_and_the_real_range_is_reported(bench: Bench) -> None:
    path = bench.write("a.txt", "one\ntwo\nthree\n")
    output = bench.call(ReadTool(bench.workspace), filePath="a.txt")
    assert output.text == (
        '<file path="a.txt" lines="1-3" total="3">\n     1\tone\n     2\ttwo\n     3\tthree\n</file>'
    )
    assert output.operations == [Read(path=str(path), start_line=1, end_line=3)]


def test_a_part_of_a_file_is_read_with_offset_and_limit(bench: Bench) -> None:
    bench.write("a.txt", "".join(f"line {number}\n" for number in range(1, 101)))
    tool = ReadTool(bench.workspace)
    asked = {"filePath": "a.txt", "offset": 11, "limit": 2}
    assert tool.operations(asked) == [Read(path=f"{bench.root}/a.txt", start_line=11, end_line=12)]
    text = bench.call(tool, **asked).text
    assert "    11\tline 11\n    12\tline 12\n</file>" in text
    assert "88 lines more: go on with offset 13" in text


def test_an_offset_behind_the_end_says_how_long_the_file_is(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    assert "has only 1 lines" in bench.refused(ReadTool(bench.workspace), filePath="a.txt", offset=5)


@pytest.mark.parametrize(("content", "total"), [("", 0), ("no end", 1), ("\n\n", 2), ("a\r\nb\r\n", 2)])
def test_lines_are_counted_as_people_count_them(bench: Bench, content: str, total: int) -> None:
    bench.write("a.txt", content)
    text = bench.call(ReadTool(bench.workspace), filePath="a.txt").text
    assert f'total="{total}"' in text
    assert "\r" not in text


def test_long_lines_and_long_files_are_cut(bench: Bench) -> None:
    bench.write("wide.txt", "x" * 5000 + "\nnext\n")
    text = bench.call(ReadTool(bench.workspace), filePath="wide.txt").text
    assert "x" * 2000 + " [cut: go on with offset 1 and column 2000]\n     2\tnext" in text
    bench.write("long.txt", f"{'y' * 100}\n" * 2000)
    text = bench.call(ReadTool(bench.workspace), filePath="long.txt").text
    assert len(text) < 51 * 1024 + 200
    assert "cut at 50 KB: go on with offset 475" in text


def test_a_line_in_the_middle_of_a_huge_file_is_found(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_module, "_BLOCK_BYTES", 7)
    monkeypatch.setattr(read_module, "_QUICK_BYTES", 100)
    bench.write("a.txt", "".join(f"line {number}\n" for number in range(1, 5001)))
    text = bench.call(ReadTool(bench.workspace), filePath="a.txt", offset=4000, limit=2).text
    assert (
        '<file path="a.txt" lines="4000-4001" total="5000">\n  4000\tline 4000\n  4001\tline 4001\n' in text
    )


def test_an_image_is_attached(bench: Bench) -> None:
    (bench.root / "dot.png").write_bytes(PNG)
    output = bench.call(ReadTool(bench.workspace), filePath="dot.png")
    (attachment,) = output.attachments
    assert (attachment.media_type, base64.b64decode(attachment.data)) == ("image/png", PNG)


def test_a_pdf_above_five_megabytes_is_refused(bench: Bench) -> None:
    (bench.root / "book.pdf").write_bytes(b"%PDF" + bytes(5 * 1024 * 1024))
    assert "larger than 5 MB" in bench.refused(ReadTool(bench.workspace), filePath="book.pdf")


@pytest.mark.parametrize("name", ["tool.bin", "."])
def test_what_is_no_text_is_refused(bench: Bench, name: str) -> None:
    (bench.root / "tool.bin").write_bytes(b"\x7fELF\0\0\0")
    assert bench.refused(ReadTool(bench.workspace), filePath=name)


def test_nothing_waits_for_a_pipe(bench: Bench) -> None:
    os.mkfifo(bench.root / "pipe")
    assert "pipe" in bench.refused(ReadTool(bench.workspace), filePath="pipe")


def test_bytes_that_are_no_utf8_are_shown_as_such(bench: Bench) -> None:
    (bench.root / "latin.txt").write_bytes(b"caf\xe9\n")
    assert "caf\ufffd" in bench.call(ReadTool(bench.workspace), filePath="latin.txt").text


@pytest.mark.parametrize(("offset", "shown"), [(-1, "9-9"), (-3, "7-9"), (-30, "1-9")])
def test_an_offset_below_zero_counts_from_the_end(bench: Bench, offset: int, shown: str) -> None:
    bench.write("a.txt", "".join(f"line {number}\n" for number in range(1, 10)))
    output = bench.call(ReadTool(bench.workspace), filePath="a.txt", offset=offset)
    assert f'lines="{shown}" total="9"' in output.text
    assert output.text.endswith("     9\tline 9\n</file>")


@pytest.mark.parametrize(
    "arguments", [{}, {"filePath": 3}, {"filePath": "a", "offset": "last"}, {"filePath": "a", "limit": "x"}]
)
def test_wrong_arguments_are_reported_with_the_right_ones(bench: Bench, arguments: dict[str, object]) -> None:
    said = bench.refused(ReadTool(bench.workspace), **arguments)
    assert "arguments: filePath, offset?, limit?" in said


def test_numbers_as_text_and_other_spellings_are_understood(bench: Bench) -> None:
    bench.write("a.txt", "one\ntwo\n")
    text = bench.call(ReadTool(bench.workspace), file_path="a.txt", offset="2", description="x").text
    assert "     2\ttwo" in text


# where


@pytest.mark.parametrize("path", ["../outside/secret", "/etc/hostname", "~/secret", "a/../../outside/secret"])
def test_nothing_outside_of_the_workspace_is_read(bench: Bench, path: str) -> None:
    (bench.outside / "secret").write_text("x")
    said = bench.refused(ReadTool(bench.workspace), filePath=path)
    assert "outside of the workspace" in said
    assert str(bench.root) in said


def test_links_are_followed_before_a_path_is_judged(bench: Bench) -> None:
    (bench.outside / "secret").write_text("x")
    (bench.root / "file").symlink_to(bench.outside / "secret")
    (bench.root / "folder").symlink_to(bench.outside)
    for path in ("file", "folder/secret", "folder/new"):
        said = bench.refused(ReadTool(bench.workspace), filePath=path)
        assert f"it leads to {bench.outside}" in said
        assert "outside" in bench.refused(WriteTool(bench.workspace), filePath=path, content="y")
    assert (bench.outside / "secret").read_text() == "x"
    assert os.listdir(bench.outside) == ["secret"]


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 5000, "a/" * 3000])
def test_impossible_paths_are_refused_in_words(bench: Bench, path: str) -> None:
    assert bench.refused(ReadTool(bench.workspace), filePath=path)
    assert bench.refused(WriteTool(bench.workspace), filePath=path, content="")


def test_version_control_is_never_written(bench: Bench) -> None:
    (bench.root / "sub" / ".git").mkdir(parents=True)
    for path in (".git/hooks/post-commit", ".GIT/config", "sub/.git/config"):
        assert "protected" in bench.refused(WriteTool(bench.workspace), filePath=path, content="evil")


def test_a_directory_that_becomes_a_link_at_the_last_moment_leads_nowhere(bench: Bench) -> None:
    """What was judged to be inside is opened without following any link."""
    from harness.workspace.files import Change, apply

    (bench.root / "folder").symlink_to(bench.outside)
    with pytest.raises(OSError, match=r"directory|symbolic"):
        apply([Change(f"{bench.root}/folder/new", None, b"x")])
    assert os.listdir(bench.outside) == []


# write


def test_a_new_file_is_created_with_its_directories(bench: Bench) -> None:
    tool = WriteTool(bench.workspace)
    output = bench.call(tool, filePath="a/b/c.txt", content="one\ntwo\n")
    assert bench.text("a/b/c.txt") == "one\ntwo\n"
    done = Write(path=f"{bench.root}/a/b/c.txt", change="create", start_line=1, end_line=2)
    assert output.operations == [done]


def test_a_file_must_have_been_read_before_it_is_replaced(bench: Bench) -> None:
    bench.write("a.txt", "old")
    assert "not read" in bench.refused(WriteTool(bench.workspace), filePath="a.txt", content="new")
    assert bench.text("a.txt") == "old"
    bench.call(ReadTool(bench.workspace), filePath="a.txt")
    output = bench.call(WriteTool(bench.workspace), filePath="a.txt", content="new")
    assert bench.text("a.txt") == "new"
    assert output.operations is not None
    assert output.operations[0].change == "update"  # type: ignore[union-attr]
    bench.call(WriteTool(bench.workspace), filePath="a.txt", content="newer")


def test_a_file_that_has_changed_since_it_was_read_is_not_replaced(bench: Bench) -> None:
    path = bench.write("a.txt", "old")
    bench.call(ReadTool(bench.workspace), filePath="a.txt")
    path.write_text("from somebody else")
    assert "has changed" in bench.refused(WriteTool(bench.workspace), filePath="a.txt", content="new")
    assert path.read_text() == "from somebody else"


def test_the_mode_of_a_file_stays(bench: Bench) -> None:
    path = bench.write("run.sh", "#!/bin/sh\n")
    path.chmod(0o750)
    bench.call(ReadTool(bench.workspace), filePath="run.sh")
    bench.call(WriteTool(bench.workspace), filePath="run.sh", content="#!/bin/sh\nexit\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_nothing_is_left_beside_a_file(bench: Bench) -> None:
    bench.call(WriteTool(bench.workspace), filePath="a.txt", content="x")
    (bench.root / "folder").mkdir()
    assert "directory" in bench.refused(WriteTool(bench.workspace), filePath="folder", content="x")
    assert sorted(os.listdir(bench.root)) == ["a.txt", "folder"]


def test_text_that_no_file_can_hold_is_refused(bench: Bench) -> None:
    assert "surrogate" in bench.refused(WriteTool(bench.workspace), filePath="a", content="\ud800")
    assert not (bench.root / "a").exists()


READ_IN_VAIN = {
    "blob.bin": ({}, b"precious\0"),
    "huge.pdf": ({}, b"%PDF" + bytes(5 * 1024 * 1024)),
    "short.txt": ({"offset": 9}, b"precious\n"),
    "line.txt": ({"column": 99}, b"precious\n"),
    "wide.txt": ({}, b"\xff\xfeodd"),
}


@pytest.mark.parametrize("name", READ_IN_VAIN)
def test_what_could_not_be_read_is_neither_changed_nor_deleted(bench: Bench, name: str) -> None:
    asked, data = READ_IN_VAIN[name]
    (bench.root / name).write_bytes(data)
    bench.refused(ReadTool(bench.workspace), filePath=name, **asked)
    refusals = [
        bench.refused(WriteTool(bench.workspace), filePath=name, content="new"),
        bench.refused(EditTool(bench.workspace), filePath=name, oldString="precious", newString=""),
        *(
            bench.refused(ApplyPatchTool(bench.workspace), patch=f"*** Begin Patch\n{change}\n*** End Patch")
            for change in (
                f"*** Delete File: {name}",
                f"*** Update File: {name}\n-precious\n+new",
                f"*** Update File: {name}\n*** Move to: other",
            )
        ),
    ]
    assert all("was not read yet" in refusal for refusal in refusals)
    assert (bench.root / name).read_bytes() == data
    assert os.listdir(bench.root) == [name]


def test_a_read_that_fails_does_not_undo_one_that_worked(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    bench.call(ReadTool(bench.workspace), filePath="a.txt")
    bench.refused(ReadTool(bench.workspace), filePath="a.txt", offset=9)
    bench.call(WriteTool(bench.workspace), filePath="a.txt", content="two\n")
    assert bench.text("a.txt") == "two\n"


def test_the_rest_of_a_long_line_can_be_read(bench: Bench) -> None:
    line = "".join(f"{number}ü" for number in range(30_000))
    bench.write("min.js", f"first\n{line}\r\nlast\n")
    tool = ReadTool(bench.workspace)
    text = bench.call(tool, filePath="min.js").text
    assert "[cut: go on with offset 2 and column 2000]" in text
    shown, column = line[:2000], 2000
    while True:
        text = bench.call(tool, filePath="min.js", offset=2, column=column).text
        shown += text.partition("\n")[2].partition("\n</file>")[0]
        if "the line is longer" not in text:
            break
        column = int(text.rpartition(" ")[2].rstrip("]"))
    assert shown == line
    assert "has only" in bench.refused(tool, filePath="min.js", offset=2, column=len(line))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_and_written_as_it_was(bench: Bench, encoding: str) -> None:
    path = bench.root / "wide.txt"
    path.write_bytes("\ufeffeins\r\nzwei ü\r\n".encode(encoding))
    assert "     2\tzwei ü\n" in bench.call(ReadTool(bench.workspace), filePath="wide.txt").text
    bench.call(EditTool(bench.workspace), filePath="wide.txt", oldString="eins\nzwei", newString="1\n2")
    assert path.read_bytes() == "\ufeff1\r\n2 ü\r\n".encode(encoding)
    text = bench.call(WriteTool(bench.workspace), filePath="wide.txt", content="a\nb\n").text
    assert "CRLF line ends, UTF-16" in text
    assert path.read_bytes() == "\ufeffa\r\nb\r\n".encode(encoding)


def test_a_file_that_is_replaced_keeps_its_line_ends_and_its_mark(bench: Bench) -> None:
    (bench.root / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    bench.call(ReadTool(bench.workspace), filePath="a.txt")
    bench.call(WriteTool(bench.workspace), filePath="a.txt", content="1\n2\r\n")
    assert (bench.root / "a.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n"


# edit


def test_a_passage_of_a_file_with_mixed_line_ends_is_found_as_it_was_shown(bench: Bench) -> None:
    bench.write("a.txt", "one\r\ntwo\nthree\r\n")
    assert edited(bench, oldString="one\ntwo", newString="1\n2") == "1\r\n2\nthree\r\n"
    assert edited(bench, oldString="2\nthree\n", newString="3\n") == "1\r\n3\r\n"
    bench.write("a.txt", "one\r\ntwo\n")
    assert edited(bench, oldString="one\r\ntwo", newString="one\ntwo") == "one\ntwo\n"


def edited(bench: Bench, name: str = "a.txt", **arguments: object) -> str:
    bench.call(ReadTool(bench.workspace), filePath=name)
    bench.call(EditTool(bench.workspace), filePath=name, **arguments)
    return bench.text(name)


def test_a_passage_is_replaced_and_its_lines_are_reported(bench: Bench) -> None:
    bench.write("a.txt", "one\ntwo\nthree\nfour\n")
    bench.call(ReadTool(bench.workspace), filePath="a.txt")
    output = bench.call(EditTool(bench.workspace), filePath="a.txt", oldString="two\n", newString="2\n2b\n")
    assert bench.text("a.txt") == "one\n2\n2b\nthree\nfour\n"
    done = Write(path=f"{bench.root}/a.txt", change="update", start_line=2, end_line=3)
    assert output.operations == [done]


def test_a_passage_must_be_there_once(bench: Bench) -> None:
    bench.write("a.txt", "x = 1\ny = 1\n")
    bench.call(ReadTool(bench.workspace), filePath="a.txt")
    tool = EditTool(bench.workspace)
    twice = bench.refused(tool, filePath="a.txt", oldString=" = 1", newString=" = 2")
    assert "occurs 2 times" in twice
    assert "blanks" in bench.refused(tool, filePath="a.txt", oldString="x  =  1", newString="")
    assert "does not occur" in bench.refused(tool, filePath="a.txt", oldString="z", newString="")
    assert "same" in bench.refused(tool, filePath="a.txt", oldString="x", newString="x")
    assert bench.text("a.txt") == "x = 1\ny = 1\n"
    assert edited(bench, oldString=" = 1", newString=" = 2", replaceAll=True) == "x = 2\ny = 2\n"


def test_line_ends_marks_and_foreign_bytes_stay_as_they_are(bench: Bench) -> None:
    (bench.root / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo \xe9\r\n")
    bench.call(ReadTool(bench.workspace), filePath="a.txt")
    bench.call(EditTool(bench.workspace), filePath="a.txt", oldString="one\ntwo", newString="1\n2")
    assert (bench.root / "a.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2 \xe9\r\n"


def test_a_file_must_have_been_read_before_it_is_edited(bench: Bench) -> None:
    bench.write("a.txt", "old")
    said = bench.refused(EditTool(bench.workspace), filePath="a.txt", oldString="old", newString="new")
    assert "read it first" in said
    assert "no such file" in bench.refused(
        EditTool(bench.workspace), filePath="b.txt", oldString="old", newString="new"
    )


def test_edits_at_the_same_time_do_not_lose_each_other(bench: Bench) -> None:
    names = [f"word{number}" for number in range(20)]
    bench.write("a.txt", "\n".join(names))
    context = bench.context()
    tool = EditTool(bench.workspace)

    async def all_at_once() -> None:
        await ReadTool(bench.workspace).run({"filePath": "a.txt"}, context)
        calls = [
            {"filePath": "a.txt", "oldString": f"{name}", "newString": name.upper()} for name in names[10:]
        ]
        await asyncio.gather(*(tool.run(call, context) for call in calls))

    asyncio.run(all_at_once())
    assert bench.text("a.txt") == "\n".join([*names[:10], *(name.upper() for name in names[10:])])


def test_always_means_this_file_and_no_other(bench: Bench) -> None:
    permission = WriteTool(bench.workspace).permission({"filePath": "app/[id]*.tsx", "content": ""})
    assert permission.params == {"filePath": r"app/\[id\]\*.tsx"}


def test_a_file_that_cannot_be_replaced_is_overwritten(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is a mount of its own, as in a container, refuses to be replaced."""
    path = bench.write("a.txt", "a long old text")
    bench.call(ReadTool(bench.workspace), filePath="a.txt")

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", refuse)
    bench.call(WriteTool(bench.workspace), filePath="a.txt", content="new")
    assert path.read_text() == "new"
    assert os.listdir(bench.root) == ["a.txt"]


def test_more_directories_can_be_allowed(tmp_path: Path) -> None:
    from harness.workspace.roots import ToolWorkspace

    bench = Bench(tmp_path)
    (bench.outside / "a.txt").write_text("x")
    workspace = ToolWorkspace(str(bench.root), readable=[str(bench.outside)])
    assert "\tx" in bench.call(ReadTool(workspace), filePath=str(bench.outside / "a.txt")).text
    assert bench.refused(WriteTool(workspace), filePath=str(bench.outside / "a.txt"), content="y")
