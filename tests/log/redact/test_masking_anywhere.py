"""Masking works with every Python that may run Harness, on strings of any size, and says so when it does not."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import time
import tracemalloc
from functools import cache

import pytest

from harness.errors import HarnessError
from harness.log.redact import self_check, split_secrets
from harness.log.redact.redactor import Redactor
from lacking import lacking
from planted_secrets import KNOWN, PEM, PEM_BODY, assert_unseen, delta, json_line
from source_tree import ROOT, modules

SECRET = KNOWN["DEPLOY_TOKEN"]
_CHECKS = """
import sys
sys.path[:0] = {folders!r}
from planted_secrets import KNOWN, PEM, PEM_BODY, STREAMED, assert_unseen, delta, redacted
for text, hidden in [*STREAMED, *((value, value) for value in KNOWN.values())]:
    start = text.index(hidden)
    for cut in (start + len(hidden) // 2, len(text) - 1):
        output = redacted(delta("") + delta('a "' + text[:cut]) + delta(text[cut:] + "\\\\"), KNOWN, ("text",))
        assert_unseen(hidden, output)
lines = [line + b"\\n" for line in PEM.encode().split(b"\\n")]
assert_unseen(PEM_BODY.replace("\\n", ""), b"".join(redacted(b"".join(lines[:cut])) for cut in (3, len(lines))))
print("masked")
"""


@cache
def _pythons_of_the_same_language() -> list[str]:
    """The interpreters of this machine that can load what is installed for this one, with other releases of `re`."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folders = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin", "/usr/local/bin"]
    programs = {os.path.realpath(os.path.join(folder, f"python{version}")) for folder in folders}
    own = os.path.realpath(sys.executable)
    return sorted(
        program
        for program in programs
        if program != own and os.access(program, os.X_OK) and _version_of(program) == version
    )


def _version_of(program: str) -> str:
    """Empty if it is no interpreter: version managers put programs on the PATH that only look for one."""
    code = "import sys; print(*sys.version_info[:2], sep='.')"
    done = subprocess.run([program, "-I", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def test_other_releases_of_this_python_mask_as_well() -> None:
    others = _pythons_of_the_same_language()
    if not others:
        pytest.skip(lacking("second Python of this version"))
    folders = [str(ROOT / "tests" / "log"), str(ROOT / "src"), sysconfig.get_path("platlib")]
    program = _CHECKS.format(folders=folders)
    for python in others:
        done = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=False)
        assert done.stdout == "masked\n", (python, done.stderr)


def test_no_expression_needs_more_than_old_releases_can() -> None:
    possessive = re.compile(r"(?<=[^\\+*?])(?:[*+?]|\{\d*,?\d*\})\+(?!\+)")
    in_brackets = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
    for module in modules("src"):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if "libstdc++" in text:  # the name of a library
                    continue
                assert not possessive.search(in_brackets.sub("x", text)), (
                    f"{module.name}:{node.lineno}: {text}"
                )


def test_a_python_that_finds_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    self_check.check_masking.cache_clear()
    nothing = split_secrets._PiecePatterns(rb"(?!)()()", rb"(?!)()")
    monkeypatch.setattr(split_secrets, "_piece_patterns", lambda key: nothing)
    with pytest.raises(HarnessError, match="secrets in pieces of text are not found with this Python"):
        Redactor(KNOWN, ("text",))


def test_a_python_whose_expressions_break_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    self_check.check_masking.cache_clear()

    def broken(key: str) -> split_secrets._PiecePatterns:
        raise SystemError("The span of capturing group is wrong")

    monkeypatch.setattr(split_secrets, "_piece_patterns", broken)
    with pytest.raises(HarnessError, match="so nothing was started"):
        Redactor(KNOWN, ("text",))


@pytest.mark.parametrize("quotes", [1, 499, 500, 501, 5000])
@pytest.mark.parametrize("backslashes", [0, 1, 2, 9, 10])
def test_a_string_of_many_escapes_is_one_piece(quotes: int, backslashes: int) -> None:
    text = '"' * quotes + "\\" * backslashes
    redactor = Redactor(KNOWN, ("text",))
    block = delta(text + SECRET[:10]) + delta(SECRET[10:] + text) + delta(text)
    output = redactor.feed(block) + redactor.flush()
    assert_unseen(SECRET, output)
    assert output.count(b"[REDACTED:DEPLOY_TOKEN]") == 1
    assert output == block.replace(SECRET[:10].encode(), b"[REDACTED:DEPLOY_TOKEN]").replace(
        SECRET[10:].encode(), b""
    )


def test_memory_does_not_grow_with_the_escapes_of_a_string() -> None:
    block = json_line({"type": "message", "text": 'ab"c\n' * 200_000})
    redactor = Redactor(KNOWN, ("text",))
    redactor.feed(block)
    tracemalloc.start()
    redactor.feed(block)
    grown = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert grown < 12 * len(block)


def test_a_private_key_of_thousands_of_lines_is_masked_to_its_end() -> None:
    begin, body, end = PEM.partition("\n")[0], PEM_BODY.split("\n")[0], PEM.rpartition("\n")[2]
    redactor = Redactor()
    output = redactor.feed(f"{begin}\n{body}\n".encode())
    output += redactor.feed(f"{body}\n".encode() * 3000)
    output += redactor.feed(f"{body}\n{end}\nafter\n".encode())
    assert_unseen(body, output)
    assert output.endswith(b"\nafter\n")


@pytest.mark.parametrize("line", [" " * 16, "     ", "\t\t1:     ", "12\t    ", "     " + "A" * 64])
def test_lines_that_may_be_a_private_key_are_read_once(line: str) -> None:
    """With two ways to read a line, a thousand of them would never end."""
    begin = PEM.partition("\n")[0]
    redactor = Redactor()
    block = (begin + f"\n{line}" * 120 + "\n!").encode()
    began = time.process_time()
    redactor.feed(block)
    assert time.process_time() - began < 5
