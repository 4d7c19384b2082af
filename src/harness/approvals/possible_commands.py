"""Whether a line could run a command that it does not plainly state: for rules that deny or ask.

`command_fragments` finds a command that stands in a line. A shell has other ways to come to one: a variable (`git $x`), a
glob (`/usr/bin/gi?`), a program that runs another and that nobody knows (`taskset 1 git push`), an alias, a pipe into a
shell. What such a line does is not known before it runs, so it is asked about. Lines that can be read and say something
else are not: `git log $x`, `echo $HOME`.

Programs that run the other one by themselves, and settings that do, are in `indirect_commands`. What a script does cannot be
seen here either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.approvals.command_fragments import (
    ASSIGNMENT,
    BETWEEN_ALSO_QUOTED_COMMANDS,
    BETWEEN_COMMANDS,
    RUNS_ANOTHER,
    RUNS_TEXTS,
    with_whole_words,
)
from harness.approvals.command_grammar import names
from harness.approvals.globs import matches
from harness.approvals.indirect_commands import could_lead_to

_SHELLS = names("ash bash dash fish ksh sh zsh")
_KEYWORDS = names("! builtin command coproc do elif else exec eval if then time until while")
"""The word after these is the command."""
_APPENDS = names("alias parallel xargs")
"""What these run gets more words than are seen."""
_STREAM_OR_VARIABLE = re.compile(r"/(dev|proc)/|\$")
"""What a shell may be given instead of a script: what it reads there is not in a file."""
_UNKNOWN = re.compile(
    r"\$'(?:[^'\\]|\\.)*'|\$\{[^}]*\}|\$\w+|\$[@*#?!$-]|\{[^{}\s]*\}|\[[^\]\s]*\]|[*?`]", re.DOTALL
)
"""Parts of a word that are not known before it runs."""
_HAS_A_PROGRAM = re.compile(
    r"<<|\s--?\w*[cefErp](?:\s|=|$)|\s--(?:eval|print|expr(?:ession)?)|\s-(?:\s|$)|\{|\bsed\s"
)
"""Where the text of a program may stand: after an option, on the input, in braces (`awk '{ … }'`), as the first word of sed."""
_STARTS_SOMETHING = re.compile(
    r"system|popen|subprocess|spawn|exec|child_process|\bCommand\b|shell|\bpty\b|\bqx\b|`|\|\s*(?:getline|\")"
    r"|__|\beval\b|getattr|importlib|\bexe\b|(?<=[\s'\"\d$/;{])e(?=[\s'\";}]|$)",
    re.IGNORECASE,
)
"""In the text of a program: words of many languages by which it starts another one, or gets at a function by its name. The
last is the `e` of sed."""
_WHERE = re.compile(r"(?:\$\(|`)\s*(?:which|whence|where|whereis|command|type|readlink|realpath)\s([^()`]*)")
"""What gives the file of a program."""
_READS_COMMANDS = frozenset({".", "source"})
_BUILDERS = names("gmake make ninja")
_NUMBER = re.compile(r"[\d.]+[smhd]?")


def could_run(line: str, forms: Sequence[str]) -> bool:
    """Whether a line could come to run a command that begins with these words."""
    whole = with_whole_words(line)
    plainly = [words for part in BETWEEN_COMMANDS.split(whole) if (words := part.split())]
    if any(_could_come_to(words, forms) or could_lead_to(words, forms) for words in plainly):
        return True
    if _is_put_together(line, forms) or _finds_the_program(line, forms[0]):
        return True
    # A text in quotes is often no command, but one that begins as it would is enough.
    quoted = [words for part in BETWEEN_ALSO_QUOTED_COMMANDS.split(line) if (words := part.split())]
    if any(_has_it_somewhere(words, forms) for words in quoted):
        return True
    runs_texts = any(_name(word) in RUNS_ANOTHER | RUNS_TEXTS for words in quoted for word in words)
    return runs_texts and any(could_lead_to(words, forms) for words in quoted)


def _is_put_together(line: str, forms: Sequence[str]) -> bool:
    """Whether a program that stands in the line as text has the words, however it joins them (`system "git", "push"`), or
    starts something that is not seen (`system("gi" + …)`).
    """
    if _HAS_A_PROGRAM.search(line) is None:
        return False
    runners = {_name(word) for word in re.split(r"[\s;&|()'\"<>]+", line)}
    if runners & RUNS_TEXTS and _STARTS_SOMETHING.search(line):
        return True
    return bool(runners & (RUNS_TEXTS | _BUILDERS)) and all(
        re.search(rf"(?<!\w){re.escape(word)}(?!\w)", line, re.IGNORECASE) for word in forms
    )


def _finds_the_program(line: str, program: str) -> bool:
    """Whether another command gets the program's file: `cp $(which git) x`."""
    return any(
        _could_be(word, program)
        for found in _WHERE.finditer(line)
        for word in found[1].split()
        if not word.startswith("-")
    )


def _could_come_to(words: list[str], forms: Sequence[str]) -> bool:
    if _has_it_somewhere(words, forms) or _renames_it(words, forms):
        return True
    for start in _commands_in(words):
        name = _name(words[start])
        has_script = any(not word.startswith("-") or "c" in word for word in words[start + 1 :])
        if name in _SHELLS and not has_script:
            return True  # its commands come from elsewhere
        if words[start] in _READS_COMMANDS and not _is_a_file(words[start + 1 :]):
            return True  # so do these
        if name == "-".join(forms[:2]) and len(forms) > 1:
            return True  # git-push
        if _UNKNOWN.search(words[start]) and _unknown_could_be(words, start, forms):
            return True
    return False


def _is_a_file(operands: Sequence[str]) -> bool:
    """Whether a shell is given commands that are in a file: that is a script, in which nothing can be seen."""
    return bool(operands) and not _STREAM_OR_VARIABLE.match(operands[0])


def _unknown_could_be(words: list[str], start: int, forms: Sequence[str]) -> bool:
    """Whether a command that begins with a word which is not known may be the wanted one."""
    word = words[start]
    if _UNKNOWN.sub("", word) == "" or _could_be(word, " ".join(forms)):
        return True  # it may be all of it
    if start and _could_be(word.partition("_")[0], forms[0]):
        return True  # a text for a shell
    return _could_be(word, forms[0]) and (bool(start) or _continues(words[start + 1 :], forms[1:]))


def _has_it_somewhere(words: list[str], forms: Sequence[str]) -> bool:
    """The program by its name, at any place: whatever stands before it may run it."""
    is_open = any(_name(word) in _APPENDS for word in words)
    for start, word in enumerate(words):
        if _UNKNOWN.search(word) or not _could_be(word.lstrip("!+="), forms[0]):
            continue
        if start and len(forms) == 1 and "/" not in word and not _is_run_by(words[:start]):
            continue  # one word may stand anywhere
        if (is_open and start) or _continues(words[start + 1 :], forms[1:]):
            return True
    return False


def _is_run_by(words: list[str]) -> bool:
    """Whether what follows these words may be a program that they run, and not a name that they are about."""
    return _name(words[0]) not in _TAKES_TEXT


_TAKES_TEXT = names(
    "cat cd cp echo git grep head less ls man mkdir mv printf rg rm sed tail test touch type whence which"
)
"""Known programs whose operands are files and texts."""


def _renames_it(words: list[str], forms: Sequence[str]) -> bool:
    """The program is given another name: `cp /usr/bin/git x`, `alias g=git`, `git config alias.p push`."""
    if any("/" in word and _could_be(word, forms[0]) and not _UNKNOWN.search(word) for word in words[1:]):
        return True
    if not any("alias" in word for word in words):
        return False
    parts = {part for word in words for part in re.split(r"[=!:]", word)}
    return any(
        _could_be(part, word) for part in parts for word in forms if part and not _UNKNOWN.search(part)
    )


def _commands_in(words: list[str]) -> Iterator[int]:
    """Where a command may begin: first, or after programs that run another, their options and the options' values."""
    start = _after_assignments(words, 0)
    while start < len(words):
        yield start
        name = _name(words[start])
        if name not in RUNS_ANOTHER:
            return
        if name == "find":
            yield from (place + 1 for place, word in enumerate(words[:-1]) if re.match("-(?:exec|ok)", word))
            return
        start = _after_assignments(words, start + 1)
        while name not in _KEYWORDS and start < len(words) and _is_setting(words, start):
            start += 1
            if start < len(words):
                yield start


def _is_setting(words: list[str], place: int) -> bool:
    word, before = words[place], words[place - 1]
    if word.startswith("-") or _NUMBER.fullmatch(word) or ASSIGNMENT.match(word):
        return True
    return before.startswith("-") and len(before) == 2


def _after_assignments(words: list[str], start: int) -> int:
    while start < len(words) and ASSIGNMENT.match(words[start]):
        start += 1
    return start


def _continues(words: Sequence[str], forms: Sequence[str]) -> bool:
    """Whether these words may be the wanted ones, with options and their values between them."""
    place = 0
    for want in forms:
        while True:
            if place == len(words):
                return False
            word = words[place]
            if _UNKNOWN.sub("", word) == "":
                return True  # any number of words
            if _could_be(word, want):
                break
            if not word.startswith("-"):
                return False
            follows = words[place + 1] if place + 1 < len(words) else ""
            has_value = follows and not follows.startswith("-") and not _could_be(follows, want)
            place += 2 if has_value else 1
        place += 1
    return True


def _could_be(word: str, form: str) -> bool:
    """Whether a word may turn out to be this one: by its last name, without regard to case."""
    name = _name(word)
    pattern = "".join(
        ".*" if number % 2 else re.escape(part) for number, part in enumerate(_split_unknown(name.casefold()))
    )
    if matches(form.casefold(), name.casefold()):
        return True
    return ".*" in pattern and re.fullmatch(pattern, form.casefold()) is not None


def _split_unknown(name: str) -> list[str]:
    """Known and unknown parts in turn."""
    parts, end = [], 0
    for match in _UNKNOWN.finditer(name):
        parts += [name[end : match.start()], match[0]]
        end = match.end()
    return [*parts, name[end:]]


def _name(word: str) -> str:
    return word.rpartition("/")[2].removesuffix(".exe")
