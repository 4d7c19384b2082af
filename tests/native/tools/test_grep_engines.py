"""`grep` gives one answer, whether ripgrep is there or not."""

from __future__ import annotations

import random
import shutil

import pytest

from harness.native.tools import grep as grep_module
from harness.native.tools.grep import GrepTool
from harness.native.tools.grep_pattern import NotUnderstood, translated
from lacking import lacking
from tool_kit import Bench

RIPGREP = shutil.which("rg") or ""


@pytest.fixture(autouse=True)
def even_for_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep_module, "FEW_FILES", 1)


needs_ripgrep = pytest.mark.skipif(not RIPGREP, reason=lacking("ripgrep"))

NAMES = ["a.py", "B.py", "sub", "Zed", ".hid", "x y", "ü.txt", "n\nl", ".git", "z.min.js", "[1]"]
WORDS = [
    "foo",
    "Foo",
    "föö",
    "bar",
    "interface{}",
    "a.b",
    "  ",
    "\t",
    "x" * 600,
    "1",
    "_",
    "\r",
    "straße",
    "\x1c",
    "·",
]
ENDS = ["\n", "\r\n", "", "\n\n"]
ATOMS = [
    *("foo", "o", ".", "[a-f]", "[^a-f]", r"\w", r"\W", r"\s", r"\S", r"\d", r"\D", "^", "$", r"\b", "ö", r"\.", "{}", "{"),
    *("(foo|bar)", "(?:o)", "(?P<n>o)", "(?i:FOO)", "x{3}", "x{2,}", "o{,2}", "o*?", r"[\w.]", r"[^\W_]", r"[\s\S]", r"\r"),
    *("[]a]", "[a-]", r"[\]]", r"\x66", r"\u00f6", "", "|", "a|", r"\t", r"[^\s]", "}", "]"),
]  # fmt: skip


def plant(dice: random.Random, bench: Bench) -> None:
    for _ in range(dice.randrange(1, 12)):
        path = "/".join(dice.choices(NAMES, k=dice.randrange(1, 4)))
        try:
            target = bench.write(path, "")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
        text = "".join(
            dice.choice(dice.choice([WORDS[:6], WORDS])) + dice.choice(ENDS)
            for _ in range(dice.randrange(12))
        )
        encoding = dice.choice(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1"])
        target.write_bytes(text.encode(encoding, "replace") + b"\0foo" * (dice.random() < 0.1))
    if dice.random() < 0.5:
        ignored = dice.sample(
            ["*.py", "sub/", "!a.py", "/Zed", r"\[1\]", "{a,b}", "[[:alpha:]]*", "**/x*", ".hid"], 2
        )
        bench.write(".gitignore", "\n".join(ignored))


def asked_for(dice: random.Random, bench: Bench) -> dict[str, object]:
    folders = [path.relative_to(bench.root).as_posix() for path in bench.root.rglob("*")]
    return {
        "pattern": "".join(dice.choices(ATOMS, k=dice.choice([1, 1, 2, 3]))) or "foo",
        "path": dice.choice(["", dice.choice(["", *folders])]),
        "include": dice.choice(["", "", "", "", "", "", "*.py", "sub/*", "**/Zed/**", "*.{py,txt}", "!a.py", "/a.py"]),
        "ignoreCase": dice.random() < 0.3,
        "context": dice.choice([0, 0, 1, 3]),
        "filesOnly": dice.random() < 0.3,
        "limit": dice.choice([3, 200]),
    }  # fmt: skip


@needs_ripgrep
@pytest.mark.parametrize("seed", range(16))
def test_both_engines_answer_the_same(bench: Bench, seed: int) -> None:
    dice = random.Random(seed)
    plant(dice, bench)
    for _ in range(4):
        asked = asked_for(dice, bench)
        answers = []
        for engine in ("", RIPGREP):
            try:
                answers.append(bench.call(GrepTool(bench.workspace, engine), **asked).text)
            except Exception as error:
                answers.append(f"{type(error).__name__}: {error}")
        assert answers[0] == answers[1], asked


@needs_ripgrep
@pytest.mark.parametrize("engine", ["", RIPGREP])
def test_files_that_match_are_named_one_on_a_line(bench: Bench, engine: str) -> None:
    for name in ("b.py", "a.py", "sub/c.py", ".hid/h.py"):
        bench.write(name, "foo\nfoo\n")
    text = bench.call(GrepTool(bench.workspace, engine), pattern="foo", filesOnly=True).text
    assert text.split("\n") == ["a.py", "b.py", ".hid/h.py", "sub/c.py"]


@needs_ripgrep
@pytest.mark.parametrize("engine", ["", RIPGREP])
def test_include_is_seen_from_the_path(bench: Bench, engine: str) -> None:
    bench.write("src/pkg/a.py", "foo\n")
    tool = GrepTool(bench.workspace, engine)
    assert bench.call(tool, pattern="foo", path="src", include="pkg/*.py").text == "src/pkg/a.py:1:foo"
    assert bench.call(tool, pattern="foo", path="src", include="src/pkg/*.py").text == "nothing was found"


@needs_ripgrep
@pytest.mark.parametrize("engine", ["", RIPGREP])
def test_line_ends_are_not_part_of_a_line(bench: Bench, engine: str) -> None:
    bench.write("a.txt", "foo\r\nbar\r\n")
    tool = GrepTool(bench.workspace, engine)
    assert bench.call(tool, pattern="foo$").text == "a.txt:1:foo"
    assert bench.call(tool, pattern="foo.").text == "nothing was found"
    assert bench.call(tool, pattern=r"\r$", limit=1).text.startswith("a.txt:1:foo\n")


@needs_ripgrep
@pytest.mark.parametrize("engine", ["", RIPGREP])
def test_utf_16_is_text_and_what_has_a_zero_byte_is_not(bench: Bench, engine: str) -> None:
    (bench.root / "wide.txt").write_bytes("ein wörtlicher Fund\r\n".encode("utf-16"))
    (bench.root / "blob").write_bytes(b"Fund\n\0")
    assert (
        bench.call(GrepTool(bench.workspace, engine), pattern="wö.*Fund$").text
        == "wide.txt:1:ein wörtlicher Fund"
    )
    assert (
        bench.call(GrepTool(bench.workspace, engine), pattern="Fund", path="blob").text == "nothing was found"
    )


@needs_ripgrep
def test_a_pattern_that_is_too_much_for_ripgrep_is_searched_for_without_it(bench: Bench) -> None:
    bench.write("a.txt", "a" * 900 + "\n")
    found = bench.call(GrepTool(bench.workspace, RIPGREP), pattern=r"(\w{300}){3}", filesOnly=True)
    assert found.text == "a.txt"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(?<=a)b", "look-behind"),
        ("a(?!b)", "look-ahead"),
        (r"(a)\1", "references"),
        ("(?P<x>a)(?P=x)", "references"),
        ("a++", "give nothing back"),
        ("(?>a)", "atomic"),
        (r"\p{Lu}", "not understood"),
        ("[[:alpha:]]", "[a-zA-Z]"),
        (r"\Aa", "^ or $"),
        (r"a\nb", "line by line"),
        ("a\nb", "line by line"),
        ("a(?i)b", "beginning"),
        ("(a", "unterminated"),
        ("a)", "unbalanced"),
        ("[a", "not closed"),
        ("*a", "nothing to repeat"),
        ("a**", "multiple repeat"),
        ("[z-a]", "wrong way"),
        (r"[\w-z]", "range"),
        ("a{2000}", "1000"),
        ("a\\", "backslash"),
        ("\ud800", "no character"),
        ("x" * 6000, "more than 5000"),
        ("(" * 3000, ""),
        ("(?x)a", "understood"),
    ],
)
def test_what_only_one_engine_would_understand_is_refused_in_words(pattern: str, words: str) -> None:
    with pytest.raises(NotUnderstood) as caught:
        translated(pattern)
    assert words in str(caught.value)


def test_the_model_learns_what_is_wrong_with_its_pattern(bench: Bench) -> None:
    emitted = bench.refused(GrepTool(bench.workspace, ""), pattern="(?<=a)b")
    assert emitted == "the search failed: in the pattern, look-ahead and look-behind are not understood"


@pytest.mark.parametrize("is_linked", [False, True])
def test_no_program_of_the_folder_searches(bench: Bench, is_linked: bool) -> None:
    """A search is not asked about, so that nothing of the folder runs by it, wherever PATH leads."""
    for name in ("rg", "xargs"):
        bench.write(f"bin/{name}", "#!/bin/sh\necho ran >> ran\n").chmod(0o755)
    folder = bench.root / "bin"
    if is_linked:
        folder = bench.outside / "bin"
        folder.symlink_to(bench.root / "bin")
    bench.env["PATH"] = f"{folder}:{bench.env['PATH']}"
    bench.write("a.txt", "needle\n")
    assert "a.txt" in bench.call(GrepTool(bench.workspace), pattern="needle").text
    assert not (bench.root / "ran").exists()
