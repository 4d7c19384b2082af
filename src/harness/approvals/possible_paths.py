"""Whether a command line could open a path that it does not plainly state: for rules that deny or ask about paths.

`rules` finds a path that stands in a line, and the files that a glob stands for. A shell can put a name together as it
runs: from a variable (`cat $F`, `cd $D && cat key`), from what another command prints (`cat $(…)`, `… | xargs cat`), or in
the text of a program (`python -c …`). What such a line opens is not known before it runs, so it is asked about. A known part
of a name proves nothing: a variable may have `..` in it. What is only printed (`echo $x`) opens nothing.

What a program reads by itself (`make`, `npm test`, a script) cannot be seen here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.approvals.command_fragments import ASSIGNMENT, BETWEEN_COMMANDS, RUNS_ANOTHER
from harness.approvals.command_grammar import names
from harness.approvals.known_variables import settled

_SUBSTITUTION = re.compile(r"[$<>]\(([^()]*)\)|`([^`]*)`")
_SUBSTITUTE = "$_"
_UNKNOWN = re.compile(r"\$(?:['{@*-]|\w)|`|\{[^{}\s]*\.\.[^{}\s]*\}|^~[-+\w]|/(?:proc|dev/fd)/")
"""In a word that is not known before it runs; `$?` and the like are numbers. Where `/proc/self/cwd` leads only the process
knows."""
_CHANGES_GLOBS = re.compile(
    r"GLOBIGNORE|dotglob|glob_?dots|extglob|extended_?glob|nocase_?glob", re.IGNORECASE
)
"""Settings of shells by which `*` is more than it seems."""
_GROUP = re.compile(r"[^\s;&|$<>(]\([^)]|<\d*-\d*>")
"""To zsh, and to bash if it is told so, part of a glob: `.e(nv)`, `a<1-9>`."""
_ALL_BUT = re.compile(r"(?:^|[./])\^")
"""To zsh, if it is told so, every other name: `.^x`. In a search, and of git, it is something else."""
_TAKES_PATTERNS = names("ack ag egrep fgrep git grep perl pgrep rg sed")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_QUOTES = re.compile(r"[\\'\"]")
_SEPARATES = re.compile(r"[\s;&|<>()]")
_OPENS_NOTHING = names("echo printf : [ [[ exit kill return shift sleep test true false wait")
"""What these are given they print, compare or count."""
_SETS_ONLY = re.compile(
    r"(?!(?:CDPATH|ENV|BASH_ENV|FIGNORE|GLOBIGNORE|HOME|IFS|OLDPWD|PATH|PWD|ZDOTDIR)\+?=)[A-Za-z_][A-Za-z0-9_]*\+?=[^(]*\Z"
)
"""A variable, none by which other words would mean something else. Where it is used it is not known."""
_KEYWORDS = names("! do elif else if then time until while {")
_TAKES_NAMES = names("cpio eval parallel pax setopt shopt source xargs .")
"""What these open or run stands elsewhere, or they change what a glob means."""
_FROM_A_LIST = re.compile(r"-T|--(?:files0?-from|input-file|pathspec-from-file)")
"""Options after which names of files stand in another one."""
_RUNS_FOR_EACH = re.compile(r"-(?:exec|ok|x$|X$)|--exec")
_FINDERS = names("bfs fd fdfind find")
"""With such an option they run something on every file that they find."""
_TAKES_A_PROGRAM = names("awk duckdb ed emacs ex gawk gdb mawk mysql psql sqlite3 vi vim")
"""Programs that are given another one as text, in which a name can be put together."""
_SED_OPTIONS = frozenset({"-n", "-E", "-r", "-i", "-s", "-u", "-z", "-nE", "-En", "-nr"})
_SED_OPENS_NOTHING = re.compile(
    r"(?:(?:\d+|\$)(?:,(?:\+?\d+|\$))?[pd]_?)+|s([/|#,@])(?:(?!\1)[^\\])*\1(?:(?!\1)[^\\])*\1[gpiI0-9]*"
)
"""Lines that are printed or deleted, or one replacement: `r`, `w` and `e` are what opens something. A `_` was a separator."""
_SCRIPT_OF_A_SHELL = re.compile(
    r"""([^'"\\`$]*(?<![^\s;&|]))(?:/(?:usr/)?bin/)?(?:bash|dash|sh|zsh)\s+-l?c\s+"""
    r"""(?:'((?:[^'"\\]|"[^'"\\]*")*)'|"((?:[^"'$`\\]|'[^"'$`\\]*')*)")(?=\s*(?:$|[;&|\n]))"""
)
"""Behind nothing that quotes anything, and with quotes of its own that end in it: put into the line, it reads as it will."""
_INTERPRETERS = names(
    "R Rscript ash bash bun clojure dash deno elixir fish ghc groovy guile irb julia ksh lua node osascript perl php pwsh"
    " python python2 python3 racket ruby sbcl scala sh swift tclsh zsh"
)
_TEXT_FOLLOWS = re.compile(r"-$|-\w*[cepErR]|--(?:eval|print|command|execute)|eval$|repl$")


_A_NUMBER = re.compile(r"\$\(\s*(?:nproc|getconf _NPROCESSORS_ONLN|sysctl -n hw\.n?cpu)\s*\)")
_TEXT_OF_A_MESSAGE = re.compile(r"\$\(cat <<-?[ ]?(['\"])(\w+)\1\n([^$`]*?)\n[ \t]*\2\n?[ \t]*\)")
"""How a message of several lines is given: `git commit -m "$(cat <<'EOF' … EOF)"`. Its text stays, to be looked at like all else,
since old shells do not find its end where it is."""


def could_open(line: str) -> bool:
    """Whether a line could come to open a path that does not stand in it."""
    line = _TEXT_OF_A_MESSAGE.sub(r"\n\3\n", _A_NUMBER.sub("1", line))
    return any(_could_open(possible_line) for possible_line in settled(line))


def _could_open(line: str) -> bool:
    text, before = line.replace("\\\n", ""), ""
    text = _with_the_script_of_a_shell(text)
    while text != before:
        # What a substitution gives is not known; what it opens itself counts as well (`echo $(cat $F)`).
        if any(_has_unknown(match[1] or match[2] or "") for match in _SUBSTITUTION.finditer(text)):
            return True
        text, before = _SUBSTITUTION.sub(_SUBSTITUTE, text), text
    return _has_unknown(text)


def _with_the_script_of_a_shell(text: str) -> str:
    """`bash -lc 'cat a'` is `cat a`, where it begins the line."""
    match = _SCRIPT_OF_A_SHELL.match(text)
    if match is None:
        return text
    return f"{match[1]} ; {match[2] or match[3] or ''} ; {text[match.end() :]}"


def _has_unknown(text: str) -> bool:
    text = _QUOTED.sub(lambda part: _SEPARATES.sub("_", part[0]), text)
    if _GROUP.search(text) or _CHANGES_GLOBS.search(text):
        return True
    parts = [part.split() for part in BETWEEN_COMMANDS.split(text)]
    return any(_opens_unknown(part) or _is_given_names(part) for part in parts if part)


def _opens_unknown(words: Sequence[str]) -> bool:
    """Whether something is opened that is not known. What a quote hides from the shell is looked at, too."""
    name = next((word for word in words if word not in _KEYWORDS), "")
    if name in _OPENS_NOTHING or all(map(_SETS_ONLY.match, words)):
        return False
    if any(map(_FROM_A_LIST.match, words)):
        return True
    if name not in _TAKES_PATTERNS and any(map(_ALL_BUT.search, words)):
        return True
    return any(_UNKNOWN.search(form) for word in words for form in (word, _QUOTES.sub("", word)))


def _is_given_names(words: Sequence[str]) -> bool:
    """Whether a command opens something that its words do not say."""
    for place, word in enumerate(words):
        name = _QUOTES.sub("", word).rpartition("/")[2]
        if name in _TAKES_NAMES or name in _TAKES_A_PROGRAM:
            return True
        if name == "sed":
            return not _is_plain_sed(words[place + 1 :])
        if name in _INTERPRETERS:
            return _has_program_as_text(words[place + 1 :])
        if name in _FINDERS:
            return any(map(_RUNS_FOR_EACH.match, words[place + 1 :]))
        if name not in RUNS_ANOTHER and not word.startswith("-") and not ASSIGNMENT.match(word):
            return False
    return False


def _is_plain_sed(words: Sequence[str]) -> bool:
    """Whether its script names no file: then it opens those that stand in the line."""
    bare = [_QUOTES.sub("", word) for word in words]
    operands = [word for word in bare if not word.startswith("-")]
    is_known = all(word in _SED_OPTIONS for word in bare if word.startswith("-"))
    return is_known and bool(operands) and _SED_OPENS_NOTHING.fullmatch(operands[0]) is not None


def _has_program_as_text(words: Sequence[str]) -> bool:
    """`python -c …`, `node -e …`, or without a file: then it comes from a pipe or a here-document."""
    for word in words:
        if _TEXT_FOLLOWS.match(word):
            return True
        if not word.startswith("-"):
            return False
    return True
