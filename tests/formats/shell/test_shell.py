"""What shell commands mean: quoting, wrapping, pipes, ranges; and what must stay a command."""

from __future__ import annotations

import shlex
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.events.operation import Command, List, Operation, Read, Search, Write
from harness.formats.fields import absolute
from harness.formats.shell import operations_of


def read(path: str, start: int | None = None, end: int | None = None) -> Read:
    return Read(path=path, start_line=start, end_line=end)


READS: dict[str, list[Operation]] = {
    "cat README.md": [read("README.md")],
    "cat -n a b": [read("a"), read("b")],
    "cat < a": [read("a")],
    "cat -- -odd": [read("-odd")],
    "cat 'a file' \"b file\" c\\ file": [read("a file"), read("b file"), read("c file")],
    "cat src/*.py": [read("src/*.py")],
    "cat f 2>/dev/null || echo missing": [read("f")],
    "cat $'tab\\there'": [read("tab\there")],
    "cat a # and nothing else": [read("a")],
    "cat a#b": [read("a#b")],
    "cat \\\n  a": [read("a")],
    "/usr/bin/cat a": [read("a")],
    "head f": [read("f", 1, 10)],
    "head -n 5 f": [read("f", 1, 5)],
    "head -n5 f": [read("f", 1, 5)],
    "head -5 f": [read("f", 1, 5)],
    "head --lines=5 f": [read("f", 1, 5)],
    "head -c 100 f": [read("f")],
    "head -n -5 f": [read("f")],
    "tail f": [read("f")],
    "tail -n 5 f": [read("f")],
    "tail -n +20 f": [read("f", 20)],
    "tail -f log": [read("log")],
    "nl -ba f": [read("f")],
    "sed -n '10,20p' src/main.ts": [read("src/main.ts", 10, 20)],
    "sed -n 7p f": [read("f", 7, 7)],
    "sed -n '10,$p' f": [read("f", 10)],
    "sed -n '10,+5p' f": [read("f", 10, 15)],
    "sed -ne '1,2p' f": [read("f", 1, 2)],
    "sed -n -e '1,2p' -e '8,9p' f": [read("f", 1, 2), read("f", 8, 9)],
    "sed -n '1,3p;5q' f": [read("f", 1, 3)],
    "sed -n '/begin/,20p' f": [read("f", None, 20)],
}

PIPES: dict[str, list[Operation]] = {
    "nl -ba f | sed -n '1,3p'": [read("f", 1, 3)],
    "cat f | head -2": [read("f", 1, 2)],
    "cat f | head -20 | tail -5": [read("f", 16, 20)],
    "cat f | tail -n +11 | head -n 5": [read("f", 11, 15)],
    "sed -n '10,20p' f | head -3": [read("f", 10, 12)],
    "sed -n '10,20p' f | head -300": [read("f", 10, 20)],
    "cat f | grep x | head -2": [read("f")],
    "cat f |\n  wc -l": [read("f")],
    "cat f |& head -1": [read("f", 1, 1)],
    "cat a b | head -2": [read("a"), read("b")],
    "rg needle src | head -5": [Search(query="needle", path="src")],
    "ls -la | sort | uniq | awk '{print $9}'": [List()],
    "cat a | tee b": [read("a"), Write(path="b")],
}

SEARCHES: dict[str, list[Operation]] = {
    "rg -n needle src": [Search(query="needle", path="src")],
    "rg needle": [Search(query="needle")],
    "rg needle src tests": [Search(query="needle")],
    "rg -g '*.py' -A 3 'two words' .": [Search(query="two words", path=".")],
    "rg -e one -e two src": [Search(query="one", path="src"), Search(query="two", path="src")],
    "grep -rn 'a|b' src": [Search(query="a|b", path="src")],
    "grep --include='*.py' -r x": [Search(query="x")],
    "egrep 'a+' f": [Search(query="a+", path="f")],
    "find . -name '*.py'": [Search(query="*.py", path=".")],
    "find . -not -path './.git/*' -name x": [Search(query="x", path=".")],
    "find src -type f": [Search(query="-type f", path="src")],
    "find src": [Search(query="src", path="src")],
    "fd needle src": [Search(query="needle", path="src")],
    "fd -e py": [Search(query="*.py")],
    "rg --files -g '*.md'": [Search(query="*.md")],
}

LISTS: dict[str, list[Operation]] = {
    "ls": [List()],
    "ls -la src": [List(path="src")],
    "ls a b": [List(path="a"), List(path="b")],
    "tree -L 2 src": [List(path="src")],
    "rg --files": [List()],
    "rg --files src": [List(path="src")],
    "fd": [List()],
}

WRAPPED: dict[str, list[Operation]] = {
    '/bin/bash -lc "cat README.md"': [read("README.md")],
    "bash -lc 'cat README.md'": [read("README.md")],
    "/usr/bin/zsh -c 'ls src'": [List(path="src")],
    "sh -c ls": [List()],
    "bash -l -c 'cat a'": [read("a")],
    "bash -o pipefail -euc 'cat a'": [read("a")],
    "bash -lc \"sh -c 'cat a'\"": [read("a")],
    "/bin/bash -lc 'cat \"it'\"'\"'s here\"'": [read("it's here")],
    "cd src && cat util.py | head -2": [read("src/util.py", 1, 2)],
    "cd src && cat ../a && cd /tmp && cat b": [read("a"), read("/tmp/b")],
    "cd src && ls && rg x": [List(path="src"), Search(query="x", path="src")],
    "bash -c 'cd src' && cat a": [read("a")],
    'cd "$DIR" && cat a': [read("a")],
    "LANG=C FOO='a b' cat a": [read("a")],
    "sudo -u root cat /etc/hosts": [read("/etc/hosts")],
    "timeout 5 env X=1 cat a": [read("a")],
    "echo '--- a' && cat a; echo '--- b'; cat b": [read("a"), read("b")],
    "test -f a && cat a": [read("a")],
    "cat a && ls b": [read("a"), List(path="b")],
}

WRITES: dict[str, list[Operation]] = {
    "cat > f": [Write(path="f")],
    "cat > f <<'EOF'\nit's $(not) run\nEOF": [Write(path="f")],
    "cat <<EOF >> f\nplain\nEOF\ncat f": [Write(path="f"), read("f")],
    "cat <<-EOF > f\n\tindented\n\tEOF\n": [Write(path="f")],
    "cat a > b": [read("a"), Write(path="b")],
    "echo hi > f": [Write(path="f")],
    "echo hi 2>&1 >f": [Write(path="f")],
    "cat a 2>errors": [read("a"), Write(path="errors")],
    "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: n.py\n+x\n*** End Patch\nEOF": [
        Write(path="n.py", change="create")
    ],
}


@pytest.mark.parametrize(
    ("command", "expected"), (READS | PIPES | SEARCHES | LISTS | WRAPPED | WRITES).items(), ids=repr
)
def test_a_file_operation_is_recognised(command: str, expected: list[Operation]) -> None:
    assert operations_of(command) == expected


COMMANDS = [
    "",
    "npm test",
    "cat",
    "rg",
    "sed -i 's/a/b/' f",
    "sed 's/a/b/' f",
    "sed -n '/x/p' f",
    "sed -n '1,3w out' f",
    "cat a && rm b",
    "cat a; rm b",
    "cat a & rm b",
    "cat a\nrm b",
    "cat a || rm b",
    "cat a | xargs rm",
    "cat a | sh",
    "cat a | sort -o a",
    "cat a | awk '{print > \"b\"}'",
    "cat a | sed 's/x/y/e'",
    "cat $(rm b)",
    "cat `rm b`",
    'cat "$(rm b)"',
    "cat <(rm b)",
    "cat <<EOF > f\n$(rm b)\nEOF",
    "cat <<EOF > f\ntext\nEOF\nrm b",
    "(cat a)",
    "{ cat a; }",
    "for f in a b; do cat $f; done",
    "if true; then cat a; fi",
    "find . -name x -delete",
    "find . -exec rm {} +",
    "fd x -x rm",
    "rg --pre ./run.sh x",
    "npm test > log",
    "bash script.sh",
    "bash -lc 'cat a && rm b'",
    "bash -lc 'cat a' > b",
    "echo hi",
    "cd src",
    "command -v cat",
    "env -C /tmp cat a",
    "cat 'unbalanced",
    'cat "unbalanced',
    "cat a\\",
    "cat a >",
    'bash -c "bash -c \'bash -c \\"bash -c \\\\\\"bash -c ls\\\\\\"\\"\'"',
]


@pytest.mark.parametrize("command", COMMANDS, ids=repr)
def test_everything_else_stays_one_command_as_written(command: str) -> None:
    assert operations_of(command) == [Command(command=command)]


def test_paths_are_absolute_where_the_directory_is_known() -> None:
    assert operations_of("cat src/../a /b ~/c $D/e", "/my files") == [
        read("/my files/a"),
        read("/b"),
        read("~/c"),
        read("$D/e"),
    ]
    assert operations_of("cd src && ls && rg x .", "/w") == [
        List(path="/w/src"),
        Search(query="x", path="/w/src"),
    ]
    assert operations_of("echo x > out", "/w") == [Write(path="/w/out")]


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        ("a", "/w", "/w/a"),
        ("./a//b/", "/w", "/w/a/b"),
        ("../../../a", "/w", "/a"),
        ("a", "", "a"),
        ("./a", "", "./a"),
        ("/a/./b/../c", "", "/a/c"),
        ("/", "/w", "/"),
        (".", "/w", "/w"),
        ("", "/w", ""),
        ("~/a", "/w", "~/a"),
        ("C:/a", "/w", "C:/a"),
        ("../a", "src", "a"),
        ("../../a", "src", "../a"),
        ("../a", "~", "~/../a"),
    ],
)
def test_a_path_is_joined_as_text(path: str, cwd: str, expected: str) -> None:
    assert absolute(path, cwd) == expected


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
@example(["a\nb", "c'd", 'e"f', "g\\h", "$(x)", "`y`"])
def test_what_shlex_quotes_is_read_back(names: list[str]) -> None:
    names = ["./" + name for name in names]
    command = shlex.join(["bash", "-lc", shlex.join(["cat", *names])])

    assert operations_of(command) == [read(name) for name in names]


SHELL_TEXT = st.lists(
    st.sampled_from(
        [
            *"'\"\\$`|&;<>()# \n\t{}!-",
            "cat",
            "sed",
            "-n",
            "1,3p",
            "EOF",
            "<<",
            "bash",
            "-lc",
            "cd",
            "a",
            "\udc80",
        ]
    )
    | st.text(max_size=3),
    max_size=30,
).map("".join)


@given(SHELL_TEXT, st.sampled_from(["", "/w", "rel", "~"]))
def test_no_text_is_too_odd(command: str, cwd: str) -> None:
    operations = operations_of(command, cwd)

    assert operations
    assert all(each.command == command for each in operations if isinstance(each, Command))


def test_a_huge_command_is_read_in_no_time() -> None:
    body = 'it\'s "a" line with $(things) and \\ in it\n' * 25_000
    started = time.process_time()

    assert operations_of(f"cat > f <<'EOF'\n{body}EOF") == [Write(path="f")]
    assert operations_of(shlex.join(["bash", "-lc", f"cat > f <<'EOF'\n{body}EOF"])) == [Write(path="f")]
    assert time.process_time() - started < 1
