"""Command lines that are proved to read only, below the folder: these are not asked about in `ask` and `accept-edits`.

A convenience: without it, `ask` would ask every few seconds, and people would press "always". So it may ask too often,
and must never allow too much. A line is free if it is of the grammar (`command_grammar`), every command is a program
of the table with options of the table alone, and every path that it names lies below the folder.

What is left out on purpose, because it writes, runs a program, follows links outwards or reads paths from a file:
`ls -L`, `tail -f`, `wc --files0-from`, `grep -f -R -d`, `rg --pre --hostname-bin -z -f -L`, `find -exec -delete -fprint`,
all of sed but printing lines, `sort -o -T`, `uniq IN OUT`, `diff -r` and folders (links in them are followed), `od -w` (a
number after it is a file), `tree -o -l`, `date -s -f -r`. GNU programs take
options after operands and abbreviated long options, so a word that begins with `-` counts wherever it stands, and long
options count only when spelled out. git is never free: a repository's own configuration makes reading commands run
programs (`core.fsmonitor`, filters, `remote.*.uploadpack` …).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from harness.approvals.command_grammar import names, parse
from harness.approvals.work_folder import WorkFolder
from harness.system.file_names import HAS_POSIX_SHELL

_Operands = Literal["paths", "files", "pattern and paths", "one path", "words", "none", "format", "names"]


class _Program(NamedTuple):
    """What a program may be called with."""

    flags: str = ""
    """Letters without a value."""
    numbers: str = ""
    """Letters with a number."""
    texts: str = ""
    """Letters with a text that is no path."""
    longs: frozenset[str] = frozenset()
    """Spelled out; one that ends with `=` has a value."""
    operands: _Operands = "paths"
    takes_number: bool = False
    """`head -20`"""


_GREP = _Program(
    "EFGPHhilLnoqrsvwxcIaz",
    "ABCm",
    "e",
    names(
        "--include= --exclude= --exclude-dir= --line-number --ignore-case --count --files-with-matches"
        " --fixed-strings --extended-regexp --recursive --with-filename --no-filename --only-matching"
        " --word-regexp --invert-match --max-count= --context= --color=never --color=auto"
    ),
    "pattern and paths",
    takes_number=True,
)
_PROGRAMS: Mapping[str, _Program] = {
    "ls": _Program(
        "1aABCdFghiklmnopQrRsStuUvxX",
        longs=names(
            "--all --almost-all --human-readable --recursive --color=never --color=auto --group-directories-first"
        ),
    ),
    "cat": _Program("AbeEnstTuv", longs=names("--number --show-all")),
    "head": _Program("qv", "nc", longs=names("--lines= --bytes="), takes_number=True),
    "tail": _Program("qv", "nc", longs=names("--lines= --bytes="), takes_number=True),
    "wc": _Program("clmwL", longs=names("--lines --words --bytes --chars")),
    "nl": _Program("p", "vwil", "bhfdns"),
    "cut": _Program("sn", "", "dfcb", names("--delimiter= --fields= --output-delimiter= --only-delimited")),
    "sort": _Program(
        "bdfghiMnRrsuVz",
        "",
        "kt",
        names("--reverse --unique --numeric-sort --human-numeric-sort --version-sort"),
    ),
    "uniq": _Program("cdDiuz", "fsw", operands="one path"),
    "tr": _Program("cCdst", operands="words"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _Program(
        "FHIilnNoqSsUvwxcaPp0.u",
        "ABCmM",
        "egtTj",
        names(
            "--files --hidden --no-ignore --no-config --line-number --ignore-case --smart-case --count"
            " --count-matches --files-with-matches --files-without-match --fixed-strings --glob= --iglob= --type="
            " --type-not= --max-count= --max-depth= --context= --no-heading --heading --only-matching"
            " --word-regexp --multiline --color=never --json --sort=path --stats --no-messages"
        ),
        "pattern and paths",
    ),
    "stat": _Program("tf", texts="c", longs=names("--format= --printf= --terse")),
    "du": _Program(
        "abchkmsSx", "d", longs=names("--max-depth= --human-readable --summarize --apparent-size")
    ),
    "tree": _Program("adfihpsugDFC", "L", "PI", names("--dirsfirst --noreport --gitignore --prune")),
    "diff": _Program(
        "abBiqsuwy",
        "UC",
        longs=names("--brief --side-by-side --ignore-all-space --color=never"),
        operands="files",
    ),
    "cmp": _Program("bls", "n"),
    "od": _Program("abcdosvx", "jN", "tA"),
    "pwd": _Program("LP", operands="none"),
    "true": _Program(operands="none"),
    "false": _Program(operands="none"),
    "echo": _Program("neE", operands="words"),
    "basename": _Program("az", "", "s", operands="words"),
    "dirname": _Program("z", operands="words"),
    "date": _Program("u", operands="format"),
    "which": _Program("a", operands="names"),
}
_OF_THE_SHELL = frozenset({"echo", "pwd", "true", "false"})
"""Shells have these themselves: no file of that name is started."""
_SHELLS = ("sh", "bash", "dash", "zsh", "fish")
_SCRIPTS_OF_GREP = ("egrep", "fgrep")
"""Scripts, on many systems, that start the first `grep` on PATH."""
_OTHERS = frozenset({"find", "sed"})
"""With a grammar of their own."""
_LOOKING = frozenset({"cd", *_PROGRAMS, *_OTHERS}) - {"which", "date"}
_FIND_TESTS = names(
    "-print -print0 -not -o -a -or -and -empty -prune -ls -depth -xdev -mount -readable -writable -executable -true"
    " -false"
)
_FIND_TESTS_WITH_TEXT = names(
    "-name -iname -path -ipath -wholename -type -maxdepth -mindepth -size -mtime -mmin -atime -ctime -cmin -regex"
    " -iregex -regextype -perm -user -group -printf"
)
_SED_PRINTS = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$|\+\d+))?p(?:;(?:\d+|\$)(?:,(?:\d+|\$|\+\d+))?p)*")
_COUNT = re.compile(r"[+-]?\d+[kKMG]?")
_PROGRAM_NAME = re.compile(r"[\w.+-]+")
_OUTSIDE = "it names a path outside of the folder"


def only_looks(line: str) -> bool:
    """Whether it is a plain line of programs of the table, which do the same whatever a shell has exported before.

    That says nothing of what they look at: it is for whoever starts them, and allows nothing.
    """
    plain = parse(line)
    return plain is not None and all(name in _LOOKING for name, *_ in plain.commands)


def why_asked(line: str, workspace: WorkFolder, cwd: str = "") -> str:
    """Why a line is not free; empty: it is proved to read only, below the folder.

    `cwd`: where the shell stands; empty: in the folder itself.
    """
    if not workspace.programs:
        return "no command is free here"
    if not workspace.holds(cwd or "."):
        return "it is not certain that it runs below the folder"
    plain = parse(line)
    if plain is None:
        return "it is more than a plain line of reading commands"
    # Were `cd` to fail, what follows would run from another folder than the one it is judged from.
    may_change = bool(plain.joins) and plain.joins[0] == "&&" and not {";", "||"} & {*plain.joins}
    for place, (name, *words) in enumerate(plain.commands):
        if name == "cd":
            if place or not may_change or len(words) != 1 or not _is_folder_below(words[0], workspace, cwd):
                return "it changes to another folder"
            cwd = os.path.join(cwd, words[0])
        elif reason := _objection(name, words, workspace, cwd):
            return reason
    return ""


def _is_folder_below(path: str, workspace: WorkFolder, cwd: str) -> bool:
    return path[:1] not in ("-", "") and _is_below(path, workspace, cwd)


def _objection(name: str, words: list[str], workspace: WorkFolder, cwd: str) -> str:
    if name not in workspace.programs:
        return f"{name} is not a program that only reads"
    if name == "find":
        return _objection_to_find(words, workspace, cwd)
    if name == "sed":
        return _objection_to_sed(words, workspace, cwd)
    program = _PROGRAMS[name]
    if name == "echo":
        return ""
    operands, has_pattern = [], False
    rest, is_ended = list(words), False
    while rest:
        word = rest.pop(0)
        if is_ended or word == "-" or not word.startswith("-"):
            operands.append(word)
        elif word == "--":
            is_ended = True
        elif word.startswith("--"):
            if not _is_long_option(word, program):
                return f"{name} has the option {word}"
        elif not (program.takes_number and word[1:].isdigit()):
            letter, is_known = _last_letter(word[1:], rest, program)
            if not is_known:
                return f"{name} has the option -{letter}"
            has_pattern = has_pattern or (letter == "e" and "e" in program.texts)
    return _objection_to_operands(name, operands, has_pattern or "--files" in words, workspace, cwd)


def _is_long_option(word: str, program: _Program) -> bool:
    if word in program.longs:
        return not word.endswith("=")
    name, equals, _ = word.partition("=")
    return bool(equals) and f"{name}=" in program.longs


def _last_letter(letters: str, rest: list[str], program: _Program) -> tuple[str, bool]:
    """The last letter of a word of options, and whether all of them may be there with their values.

    Only the last one can have a value, which follows in the same word or is taken from `rest`.
    """
    letter = ""
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter in program.flags:
            continue
        if letter not in program.numbers + program.texts:
            return letter, False
        value = letters or (rest.pop(0) if rest else None)
        is_value = value is not None and (letter in program.texts or _COUNT.fullmatch(value) is not None)
        return letter, is_value
    return letter, True


def _objection_to_operands(
    name: str, operands: list[str], has_pattern: bool, workspace: WorkFolder, cwd: str
) -> str:
    match _PROGRAMS[name].operands:
        case "words":
            return ""
        case "none":
            return f"{name} has operands" if operands else ""
        case "format":
            return "" if all(word.startswith("+") for word in operands) else f"{name} may change the clock"
        case "names":
            is_plain = all(_PROGRAM_NAME.fullmatch(word) for word in operands)
            return "" if is_plain else f"{name} is given a path"
        case "one path" if len(operands) > 1:
            return f"{name} writes to its second file"
        case "files" if any(_is_folder(word, workspace, cwd) for word in operands):
            return f"{name} follows links in a folder"
        case "pattern and paths" if not has_pattern:
            operands = operands[1:]
    return _objection_to_paths(operands, workspace, cwd)


def _objection_to_find(words: list[str], workspace: WorkFolder, cwd: str) -> str:
    rest = list(words)
    while rest and not rest[0].startswith("-"):
        if not _is_below(rest.pop(0), workspace, cwd):
            return _OUTSIDE
    while rest:
        word = rest.pop(0)
        if word in _FIND_TESTS_WITH_TEXT and rest:
            rest.pop(0)
        elif word not in _FIND_TESTS:
            return f"find has the option {word}"
    return ""


def _objection_to_sed(words: list[str], workspace: WorkFolder, cwd: str) -> str:
    is_print = len(words) > 1 and words[0] == "-n" and _SED_PRINTS.fullmatch(words[1]) is not None
    if not is_print or any(word.startswith("-") for word in words[2:]):
        return "sed may do more than print lines"
    return _objection_to_paths(words[2:], workspace, cwd)


def _objection_to_paths(paths: list[str], workspace: WorkFolder, cwd: str) -> str:
    return "" if all(path == "-" or _is_below(path, workspace, cwd) for path in paths) else _OUTSIDE


def _is_below(path: str, workspace: WorkFolder, cwd: str) -> bool:
    # The grammar has a tilde within quotes only, where it is part of a name.
    return workspace.holds(f"./{path}" if path.startswith("~") else path, cwd)


def _is_folder(path: str, workspace: WorkFolder, cwd: str) -> bool:
    return any(map(os.path.isdir, workspace.reals(path, cwd)))


_FOLDERS = frozenset({"/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin"})
_CHANGES_PROGRAMS = names(
    "BASH_ENV ENV CDPATH GLOBIGNORE SHELLOPTS BASHOPTS POSIXLY_CORRECT PROMPT_COMMAND PS4 ZDOTDIR RIPGREP_CONFIG_PATH"
    " GREP_OPTIONS LESSOPEN LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT GCONV_PATH LOCPATH TREE_COLORS MAGIC"
)
"""Variables by which a shell or a program of the table would run or read something else."""


def free_programs(environ: Mapping[str, str]) -> frozenset[str]:
    """The programs of the table that this environment starts from the system's own folders; none where it is changed.

    A `cat` in a `.venv/bin` or `node_modules/.bin` that comes first on PATH is not the one that only reads.
    """
    if not HAS_POSIX_SHELL:
        return frozenset()
    # One that is empty is off, but for that which GNU programs only look for.
    is_changed = "POSIXLY_CORRECT" in environ or any(environ.get(name) for name in _CHANGES_PROGRAMS)
    if is_changed or any(name.startswith(("BASH_FUNC_", "DYLD_")) for name in environ):
        return frozenset()
    folders = environ.get("PATH", "").split(os.pathsep)
    if any(_folder_of(shell, folders) not in ("", *_FOLDERS) for shell in _SHELLS):
        return frozenset()
    names = {*_PROGRAMS, *_OTHERS}
    programs = {name for name in names if _folder_of(name, folders) in _FOLDERS}
    return frozenset({*_OF_THE_SHELL, *programs} - ({*_SCRIPTS_OF_GREP} if "grep" not in programs else set()))


def _folder_of(name: str, folders: list[str]) -> str:
    """The folder from which a shell would start it. A relative one depends on where the shell stands: it is none."""
    for folder in folders:
        if not folder.startswith("/") or os.access(os.path.join(folder, name), os.X_OK):
            return folder.rstrip("/")
    return ""
