"""Which commands a shell line runs, to decide whether it may run.

Two readings, each wrong on the safe side:

- `commands_of` (to allow) knows a small part of the shell's grammar exactly and refuses the rest. The
  splitter in `words` describes what was run and reads much more; it can be led to take a command
  for a quoted word (`"${x#'"'}" ; rm y # '`), which does not matter there and would here.
- `fragments_of` (to deny) finds commands wherever one could be, also within quotes, and thus some that
  are not run. What a program puts together as it runs (`r$x y`) it cannot see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.sources.formats.shell.files import names

_PIECE = re.compile(
    r"""
    (?P<continuation>\\\n)
  | (?P<nothing>
        [ \t]+
      | (?:(?<![^\s;|&])[0-9])?>&[0-9](?![^\s;|&])              # 2>&1
      | (?:(?<![^\s;|&])[0-9])?>>?[ \t]*/dev/null(?![^\s;|&])   # 2> /dev/null, not &>: dash ends a command there
      | <[ \t]*/dev/null(?![^\s;|&])
    )
  | (?P<separator>&&|\|\||\|&|[;|&\n])
  | (?P<word>
        [^\x00-\x20\x7f'"\\$`|&;<>()\#]+
      | '[^']*'
      | "(?:[^"\\$`]|\\[^\n]|\$(?:\w+|\{\w+\}))*"
      | \\[^\n]
      | \$(?:\w+|\{\w+\}|[?@*!$](?![\w'"(\[{]))
    )
    """,
    re.VERBOSE | re.ASCII,
)


def commands_of(line: str) -> list[str] | None:
    """The simple commands of a line as they are written, blanks made one; None when that is not certain.

    Not certain is whatever hides a command or does more than run one: substitutions, subshells, files
    that are read or written by redirection, here-documents, expansions with operators, comments.
    """
    commands: list[list[str]] = [[]]
    position = 0
    while position < len(line):
        piece = _PIECE.match(line, position)
        if piece is None:
            return None
        position = piece.end()
        words = commands[-1]
        match piece.lastgroup:
            case "separator":
                commands.append([])
            case "word":
                words.append(piece[0])
            case "nothing" if words and words[-1] != " ":
                words.append(" ")
    return [text for words in commands if (text := "".join(words).removesuffix(" "))]


_PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]*", re.ASCII)
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9_-]*", re.ASCII)
_WITH_SUBCOMMANDS = names(
    "apt apt-get brew bundle cargo conda docker dotnet flutter gem gh git go gradle helm hg just kubectl mvn npm"
    " pip pip3 pnpm podman poetry rustup svn systemctl terraform uv yarn"
)
_RUNS_TEXTS = names(
    "awk bun bunx deno ed emacs ex gawk gdb lua mawk mysql nano nc node npx osascript perl php pip-run pipx psql pwsh"
    " python python2 python3 rsync ruby scp screen script sed sqlite3 tclsh tmux uvx vi view vim"
)
"""Programs that execute their arguments: the name alone does not say what is done."""
_RUN_SUBCOMMANDS = names("apply bisect create dlx eval exec rebase run runx script submodule ssh x")
"""The same of subcommands."""


def says_what_runs(word: str) -> bool:
    """Whether a command that begins with this word is known by it."""
    name = word.rpartition("/")[2]
    is_empty = name in _RUNS_ANOTHER or name in _RUNS_TEXTS or name.startswith("python")
    return not is_empty and _ASSIGNMENT.match(word) is None and not set(word) & set("\\'\"$~*?[]{}#!=")


def prefix_of(line: str) -> str | None:
    """The words that a line of one plain command begins with, for "always what begins like this".

    None for everything else: several commands, assignments, programs that run others or carry out texts.
    """
    commands = commands_of(line)
    if commands is None or len(commands) != 1 or commands[0] != line.strip():
        return None
    first, _, rest = commands[0].partition(" ")
    if _PROGRAM.fullmatch(first) is None or not says_what_runs(first):
        return None
    if first not in _WITH_SUBCOMMANDS:
        return first
    second = rest.partition(" ")[0]
    is_plain = _SUBCOMMAND.fullmatch(second) is not None and second not in _RUN_SUBCOMMANDS
    return f"{first} {second}" if is_plain else None


_BETWEEN_COMMANDS = re.compile(r"[;&|\n()`<>]+|(?<!\S)[{}](?!\S)")
_BETWEEN_ALSO_QUOTED_COMMANDS = re.compile(r"[;&|\n()`<>'\"]+|(?<!\S)[{}](?!\S)")
_QUOTING = re.compile(r"\\\n|[\\'\"]")
_BLANK_IN_DISGUISE = re.compile(r"\$IFS\b|\$\{IFS\}|(?<=\w),(?=[^\s{}]*\})|(?<!\S)\{(?=\w+,)")
"""`{rm,x}` and `rm${IFS}x` are both `rm x`."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_RUNS_ANOTHER = names(
    "! ash bash builtin busybox chroot command coproc dash do doas elif else env eval exec find flock if ionice"
    " ksh nice nohup nsenter parallel setsid sh ssh stdbuf strace su sudo then time timeout trap unshare until"
    " watch while xargs zsh"
)
_MOST_WORDS_BEFORE = 32
"""Options and values between a program that runs another and the other."""


def fragments_of(line: str) -> Iterator[str]:
    """Everything in a line that could be a command, in each way it may be meant; first the line itself."""
    yield line
    unquoted = _BLANK_IN_DISGUISE.sub(" ", _QUOTING.sub("", line))
    for text, between in (
        (line, _BETWEEN_ALSO_QUOTED_COMMANDS),
        (unquoted, _BETWEEN_COMMANDS),
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
    while start < len(words) and _ASSIGNMENT.match(words[start]):
        start += 1
    if start == len(words):
        return
    yield start
    if words[start].rpartition("/")[2] in _RUNS_ANOTHER:
        yield from range(start + 1, min(len(words), start + 1 + _MOST_WORDS_BEFORE))
