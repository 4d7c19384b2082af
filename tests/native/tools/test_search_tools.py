"""Searching and listing: both engines find the same, nothing leads out, and nothing takes for ever."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

from harness.events.operation import List, Search
from harness.native.tools import grep as grep_module
from harness.native.tools import grep_program
from harness.native.tools.glob import GlobTool
from harness.native.tools.grep import GrepTool
from harness.native.tools.list import ListTool
from harness.workspace import tree
from harness.workspace.tree import Glob
from lacking import lacking
from tool_kit import Bench

RIPGREP = shutil.which("rg") or ""
ENGINES = [
    pytest.param("", id="own"),
    pytest.param(RIPGREP, id="ripgrep", marks=pytest.mark.skipif(not RIPGREP, reason=lacking("ripgrep"))),
]


@pytest.fixture
def planted(bench: Bench) -> Bench:
    bench.write("src/app.py", "import os\n\ndef main():\n    needle = 1\n    return needle\n")
    bench.write("src/deep/er/other.py", "Needle = 2\n")
    bench.write("notes.md", "a needle in text\n")
    bench.write(".hidden/x.py", "needle\n")
    bench.write("build/out.py", "needle\n")
    bench.write("src/keep.log", "needle\n")
    bench.write("src/drop.log", "needle\n")
    bench.write(".git/config", "needle\n")
    bench.write(".gitignore", "# generated\nbuild/\n*.log\n!keep.log\n")
    (bench.root / "blob.bin").write_bytes(b"needle\0\0")
    (bench.outside / "secret.py").write_text("needle\n")
    (bench.root / "link").symlink_to(bench.outside)
    (bench.root / "link.py").symlink_to(bench.outside / "secret.py")
    return bench


@pytest.mark.parametrize("engine", ENGINES)
def test_matches_come_with_path_and_line(planted: Bench, engine: str) -> None:
    output = planted.call(GrepTool(planted.workspace, engine), pattern="needle")
    assert sorted(output.text.split("\n")) == [
        ".hidden/x.py:1:needle",
        "notes.md:1:a needle in text",
        "src/app.py:4:    needle = 1",
        "src/app.py:5:    return needle",
        "src/keep.log:1:needle",
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"include": "*.md"}, ["notes.md:1:a needle in text"]),
        ({"path": "src/deep", "ignoreCase": True}, ["src/deep/er/other.py:1:Needle = 2"]),
        ({"path": "src/app.py"}, ["src/app.py:4:    needle = 1", "src/app.py:5:    return needle"]),
        ({"include": "src/*.py", "filesOnly": True}, ["src/app.py"]),
        ({"path": "notes.md", "context": 2}, ["notes.md:1:a needle in text"]),
        ({"path": "build"}, ["build/out.py:1:needle"]),
    ],
)
def test_a_search_can_be_narrowed(
    planted: Bench, engine: str, asked: dict[str, object], expected: list[str]
) -> None:
    output = planted.call(GrepTool(planted.workspace, engine), pattern="needle", **asked)
    assert output.text.split("\n") == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_context_lines_are_shown_in_groups(planted: Bench, engine: str) -> None:
    planted.write(
        "src/many.txt", "".join(f"{'needle' if number % 10 == 0 else number}\n" for number in range(25))
    )
    text = planted.call(
        GrepTool(planted.workspace, engine), pattern="needle", path="src/many.txt", context=1
    ).text
    assert text.split("\n") == [
        *("src/many.txt:1:needle", "src/many.txt:2-1", "--"),
        *("src/many.txt:10-9", "src/many.txt:11:needle", "src/many.txt:12-11", "--"),
        *("src/many.txt:20-19", "src/many.txt:21:needle", "src/many.txt:22-21"),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_found_is_no_failure_and_a_bad_pattern_is(planted: Bench, engine: str) -> None:
    tool = GrepTool(planted.workspace, engine)
    assert planted.call(tool, pattern="no such thing").text == "nothing was found"
    assert "search failed" in planted.refused(tool, pattern="(unclosed")
    assert "no such" in planted.refused(tool, pattern="x", path="nowhere")
    assert "outside" in planted.refused(tool, pattern="x", path="link")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pattern_that_looks_like_an_option_is_a_pattern(planted: Bench, engine: str) -> None:
    planted.write("opt.txt", "--pre=touch\n")
    output = planted.call(GrepTool(planted.workspace, engine), pattern="--pre=touch", include="--opt*")
    assert output.text == "nothing was found"
    assert "opt.txt:1:" in planted.call(GrepTool(planted.workspace, engine), pattern="--pre=touch").text


@pytest.mark.parametrize("engine", ENGINES)
def test_many_matches_are_cut(bench: Bench, engine: str) -> None:
    bench.write("a.txt", "needle\n" * 100_000)
    output = bench.call(GrepTool(bench.workspace, engine), pattern="needle", limit=50)
    assert output.text.count("needle") == 50
    assert "there is more" in output.text


def test_an_expression_that_never_ends_is_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep_module, "TIMEOUT_S", 0.5)
    bench.write("a.txt", "a" * 60 + "b\n")
    began = time.monotonic()
    output = bench.call(GrepTool(bench.workspace, ""), pattern="(a+)+$")
    assert "stopped after 0.5 s" in output.text
    assert time.monotonic() - began < 10


def test_what_is_searched_is_reported_before(bench: Bench) -> None:
    root = str(bench.root)
    grep, glob = GrepTool(bench.workspace), GlobTool(bench.workspace)
    assert grep.operations({"pattern": "x", "path": "src"}) == [Search(query="x", path=f"{root}/src")]
    assert glob.operations({"pattern": "*.py"}) == [Search(query="*.py", path=root)]
    assert ListTool(bench.workspace).operations({}) == [List(path=root)]


# glob


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", [".hidden/x.py", "src/app.py", "src/deep/er/other.py"]),
        ("src/*.py", ["src/app.py"]),
        ("src/**/*.py", ["src/app.py", "src/deep/er/other.py"]),
        ("**/er/**", ["src/deep/er/other.py"]),
        ("*.{md,log}", ["notes.md", "src/keep.log"]),
        ("[a-n]*", ["notes.md", "src/app.py", "src/keep.log", "blob.bin"]),
        ("link/*", []),
    ],
)
def test_files_are_found_by_name(planted: Bench, pattern: str, expected: list[str]) -> None:
    text = planted.call(GlobTool(planted.workspace), pattern=pattern).text
    assert sorted(text.split("\n")) == (sorted(expected) or ["nothing was found"])


def test_found_files_are_cut_at_the_limit(planted: Bench) -> None:
    text = planted.call(GlobTool(planted.workspace), pattern="*", limit=2).text
    assert len(text.split("\n")) == 3
    assert "there are more" in text


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("a/**", "a", False),
        ("a/**", "a/b/c", True),
        ("**", "a/b", True),
        ("**/c", "c", True),
        ("a/**/c", "a/c", True),
        ("a/**/b/**/c", "a/x/b/b/y/c", True),
        ("a/**/b/**/c", "a/x/y/c", False),
        ("*", "a/b", True),
        ("/a", "b/a", False),
        ("./a/*", "a/b", True),
        ("{a,b}/{c,d}", "b/d", True),
    ],
)
def test_globs(pattern: str, path: str, fits: bool) -> None:
    assert Glob(pattern).matches(path) is fits


def test_a_glob_of_many_stars_is_quick() -> None:
    began = time.process_time()
    assert not Glob("*a" * 40 + "b").matches("a" * 250)
    assert not Glob("**/a" * 20 + "/b").matches("/".join("a" * 200))
    assert Glob("{a,b}" * 30).matches("a" * 30) in (True, False)
    assert time.process_time() - began < 1


RULES = [
    *("/top", "any", "sub/x", "*.o", "!keep.o", "dir/", "**/deep/z", r"\#odd", "a b ", "", "# no"),
    *(
        r"\[x\]",
        r"sp\ ace",
        r"end\ ",
        "[[:alpha:]]1",
        "{c,d}",
        r"\!bang",
        "[!a-y]2",
        "[]]3",
        "un[closed",
        "q?4",
    ),
    *(r"st\*r", "[z-a]5", "[[:nothing:]]6", r"[\]]7", "*8*.*t"),
]
NAMES = [
    *("top", "sub/top", "any", "sub/any", "sub/x", "sub/sub/x", "a.o", "keep.o", "sub/keep.o", "#odd"),
    *(
        "dirs/dir",
        "dir/file",
        "q/deep/z",
        "deep/z",
        "z",
        "local",
        "sub/local",
        "sub/q/local",
        "a b",
        "dir2/dir/a",
    ),
    *("[x]", "x", "sp ace", "end ", "end", "a1", "11", "c", "{c,d}", "!bang", "z2", "b2", "]3", "un[closed"),
    *("qq4", "q4", "st*r", "star", "z5", "-5", "n6", "]7", "a8.t", "88.txt", "8t"),
]


def test_ignore_files_hold_for_what_is_below_them(bench: Bench) -> None:
    if not shutil.which("git"):
        pytest.skip(lacking("git"))
    bench.write(".gitignore", "\n".join(RULES))
    bench.write("sub/.gitignore", "local\n!any\n")
    for name in NAMES:
        if not (bench.root / name).exists():
            bench.write(name, "")
    subprocess.run(
        ["git", "init", "-q", "."], cwd=bench.root, check=True, env={**os.environ, "HOME": "/nowhere"}
    )
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=bench.root,
        check=True,
        capture_output=True,
    ).stdout.decode()
    assert sorted(entry.relative for entry in tree.walk(str(bench.root), str(bench.root))) == sorted(
        listed.split("\0")[:-1]
    )


# list


def test_a_directory_is_listed_by_name(planted: Bench) -> None:
    text = planted.call(ListTool(planted.workspace)).text
    assert text.split("\n") == [
        *(".git/", ".gitignore  35", ".hidden/", "blob.bin  8", "build/", "link@", "link.py@"),
        *("notes.md  17", "src/"),
    ]
    assert planted.call(ListTool(planted.workspace), path="src/deep").text == "er/"


def test_a_directory_outside_is_not_listed(planted: Bench) -> None:
    assert "outside" in planted.refused(ListTool(planted.workspace), path="link")
    assert "no such" in planted.refused(ListTool(planted.workspace), path="nowhere")
    assert "no directory" in planted.refused(ListTool(planted.workspace), path="notes.md")


def test_a_huge_directory_is_cut_quickly(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.native.tools import list as list_module

    monkeypatch.setattr(list_module, "MOST_SORTED", 1000)
    for number in range(1500):
        (bench.root / f"{number:05}").touch()
    text = bench.call(ListTool(bench.workspace), limit=10).text
    assert len(text.split("\n")) == 11
    assert "more than 1000 entries" in text
    text = bench.call(GlobTool(bench.workspace), pattern="*9", limit=10).text
    assert "there are more" in text


def test_strange_names_do_no_harm(bench: Bench) -> None:
    (bench.root / os.fsdecode(b"bad\xff\nname.txt")).write_text("needle\n")
    bench.write("good.txt", "needle\n")
    assert "good.txt:1:needle" in bench.call(GrepTool(bench.workspace, ""), pattern="needle").text
    assert "good.txt" in bench.call(GlobTool(bench.workspace), pattern="*.txt").text
    assert "good.txt" in bench.call(ListTool(bench.workspace)).text


def test_the_search_program_needs_nothing_but_python(bench: Bench) -> None:
    path = bench.write("a.txt", "needle\n")
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            grep_program.__file__,
            '{"expression": "needle", "context": 0, "files_only": false}',
        ],
        input=f"{path}\0".encode(),
        capture_output=True,
        check=False,
        env={},
    )
    assert (done.returncode, done.stdout) == (0, f"{path}\0001:needle\n".encode())
