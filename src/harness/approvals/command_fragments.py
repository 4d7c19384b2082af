"""Everything in a command line that could be a command: for rules that deny or ask, which match broadly.

What a program puts together as it runs (`r$x y`), and what a script or an alias does, cannot be seen in a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.approvals.command_grammar import names

BETWEEN_COMMANDS = re.compile(r"[;&|\n\r()`<>]+|(?<!\S)[{}](?!\S)")
BETWEEN_ALSO_QUOTED_COMMANDS = re.compile(r"[;&|\n\r()`<>'\"]+|(?<!\S)[{}](?!\S)")
_QUOTING = re.compile(r"\\\n|[\\'\"]")
_BLANK_IN_DISGUISE = re.compile(r"\$IFS\b|\$\{IFS\}|(?<=\w),(?=[^\s{}]*\})|(?<!\S)\{(?=\w+,)")
"""`{rm,x}` and `rm${IFS}x` are both `rm x`."""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
RUNS_ANOTHER = names(
    "! ash bash builtin busybox chroot command coproc dash do doas elif else env eval exec find fish flock if ionice"
    " ksh nice nohup nsenter parallel setsid sh ssh stdbuf strace su sudo then time timeout trap unshare until"
    " watch while xargs zsh"
)
_MOST_WORDS_BEFORE = 32
"""Options and values between a program that runs another and the other."""


RUNS_TEXTS = names(
    "awk bun bunx deno ed emacs ex gawk gdb lua mawk mysql nano nc node npx osascript perl php pip-run pipx psql pwsh"
    " python python2 python3 rsync ruby scp screen script sed sqlite3 tclsh tmux uvx vi view vim"
)
"""Programs that execute their arguments: the name alone does not say what is done."""


def says_what_runs(word: str) -> bool:
    """Whether a command that begins with this word is known by it."""
    name = word.rpartition("/")[2]
    is_empty = name in RUNS_ANOTHER or name in RUNS_TEXTS or name.startswith("python")
    return not is_empty and ASSIGNMENT.match(word) is None and not set(word) & set("\\'\"$~*?[]{}#!=")


_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_REDIRECTION = re.compile(
    r"(?:&>>?|\d*(?:>>|>\||[<>]&|<>|[<>]))(?![<>(])[ \t]*(?:\"[^\"]*\"|'[^']*'|[^\s;&|<>()'\"]+)+"
)
_QUOTED = re.compile(r"\$?\"((?:[^\"\\]|\\.)*)\"|(?<!\$)'([^']*)'|\\(.)", re.DOTALL)
_BREAKS_A_WORD = re.compile(r"[\s;&|()<>]")


def with_whole_words(line: str) -> str:
    """The line with each word in one piece: what is quoted has no blank, and a substitution or a redirection is none.

    `git -C 'my dir' push 2>x` is `git -C my_dir push`; what a substitution gives is not known, as if it were a variable.
    """
    text, before = line.replace("\\\n", ""), ""
    while text != before:
        text, before = _SUBSTITUTION.sub("$_", text), text
    text = _REDIRECTION.sub(" ", text)
    return _QUOTED.sub(lambda part: _BREAKS_A_WORD.sub("_", part[1] or part[2] or part[3] or ""), text)


_WITHIN_A_WORD = re.compile(r"(?<=\w)['\"\\]+(?=\w)|['\"]{2}")
"""`p""ush`, also in a text that is quoted as a whole."""


def fragments_of(line: str) -> Iterator[str]:
    """Everything in a line that could be a command, in each way it may be meant; first the line itself."""
    yield line
    unquoted = _BLANK_IN_DISGUISE.sub(" ", _QUOTING.sub("", line))
    for text, between in (
        (line, BETWEEN_ALSO_QUOTED_COMMANDS),
        (_WITHIN_A_WORD.sub("", line), BETWEEN_ALSO_QUOTED_COMMANDS),
        (unquoted, BETWEEN_COMMANDS),
        (with_whole_words(line), BETWEEN_COMMANDS),
    ):
        for part in between.split(text):
            words = part.split()
            for start in _beginnings(words):
                command = " ".join(words[start:])
                yield command
                if "/" in words[start]:  # /bin/rm is rm
                    yield command[words[start].rfind("/") + 1 :]


def _beginnings(words: list[str]) -> Iterator[int]:
    """Where the command itself may begin, after what only runs it."""
    start = 0
    while start < len(words) and ASSIGNMENT.match(words[start]):
        start += 1
    if start == len(words):
        return
    yield start
    if words[start].rpartition("/")[2] in RUNS_ANOTHER:
        yield from range(start + 1, min(len(words), start + 1 + _MOST_WORDS_BEFORE))
