"""Rules: what a person, a project or a session says about calls, and what they cover.

A rule that denies or asks is broad: it *touches* a call that has something of it, one command of a line, one path,
in any spelling, with links followed. A rule that allows is narrow: it *covers* a call only as a whole, every command
and every path, with no option beyond those that it names.

| key | names |
|---|---|
| `tool` | the tool, by its own name; a glob |
| `command` | a command by its first words: `git push`. In a rule that allows, exactly these words; `npm test *` also operands after them |
| `path` | a glob from the folder, from `~/`, or absolute; without a slash, a rule that denies or asks means it in any folder. In a rule that allows a command, the folder in which it runs |
| `server` | an MCP server; a glob |
| `category` | `read`, `edit`, `execute`, `network`, `mcp`, `unknown` |
| `agent` | only this agent |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Literal, TypeAlias

import msgspec

from harness.approvals.arguments import ArgumentRule, CallArguments, spelled
from harness.approvals.call import Answer, ProposedCall
from harness.approvals.command_fragments import fragments_of
from harness.approvals.command_grammar import names, parse
from harness.approvals.globs import matches
from harness.approvals.known_variables import settled
from harness.approvals.possible_commands import could_run
from harness.approvals.possible_paths import could_open
from harness.approvals.work_folder import WorkFolder, is_below

RuleSource: TypeAlias = Literal["user", "project", "option", "session", "grant", "once"]
"""`grant`: a person answered "always"; `once`: for one call, and used up by it."""
FORM_END = " …"
"""At the end of a command that was granted as a form: names and paths may follow. A line that is granted has no such end."""
_ANY_OPERANDS = (" *", FORM_END)


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    answer: Answer
    tool: str = ""
    command: str = ""
    options: tuple[str, ...] = ()
    """Of a command that allows operands: the options that may stand among them."""
    path: str = ""
    server: str = ""
    category: str = ""
    agent: str = ""
    params: dict[str, str] | None = None
    """Argument → glob; arguments that are not listed are free."""
    closed: bool = False
    """Only calls that have no other arguments than those of `params`."""
    call_id: str = ""
    """Only the call to which its model gave this id."""
    reason: str = ""
    source: RuleSource = "user"
    place: str = ""
    """Where it is written, for people: a file and a line, or what gave it."""

    @property
    def words(self) -> str:
        """The rule in a few words."""
        conditions = (
            f"{name} {value}"
            for name in ("agent", "server", "tool", "category", "command", "path")
            if (value := getattr(self, name))
        )
        return f"{self.answer} {', '.join(conditions) or 'everything'}"

    @property
    def is_whole(self) -> bool:
        """Whether it speaks of all calls of a tool, a server or a category."""
        return not (self.params or self.closed or self.command or self.path or self.call_id)

    def is_about(self, call: ProposedCall) -> bool:
        """Whether tool, category and server are those that it names."""
        return _is_named(self, call)


def is_path_of(glob: str, path: str, workspace: WorkFolder) -> bool:
    """Broadly: whether a whole path is one that a glob of a rule means."""
    return any(_is_glob_of(each, path, is_broad=True) for each in _globs(glob, workspace))


def first_touching(
    rules: Iterable[Rule], answer: Answer, call: ProposedCall, workspace: WorkFolder
) -> Rule | None:
    """The first rule with this answer that touches a call."""
    return next((rule for rule in rules if rule.answer == answer and touches(rule, call, workspace)), None)


def touches(rule: Rule, call: ProposedCall, workspace: WorkFolder) -> bool:
    """Whether something in a call is what a rule names."""
    if not _is_named(rule, call):
        return False
    if rule.params and not CallArguments(call).touches(rule.params):
        return False
    if rule.command and not _touches_command(rule.command, call):
        return False
    return not rule.path or _touches_path(rule.path, call, workspace)


def first_possible(rules: Iterable[Rule], call: ProposedCall) -> Rule | None:
    """The first rule that denies or asks about something which a command could come to, though it does not say so."""
    lines = [line for line in _lines(call, is_certain=False) if line]
    return next(
        (
            rule
            for rule in rules
            if rule.answer != "allow" and _is_named(rule, call)
            if any(_is_possible(rule, line) for line in lines)
        ),
        None,
    )


def _is_possible(rule: Rule, line: str) -> bool:
    """Whether a line could be what a rule names, though it does not say so."""
    if rule.path and not could_open(line):
        return False
    if rule.command:
        return could_run(line, _words(rule.command)) or bool(rule.path and _has_command(rule.command, line))
    return bool(rule.path)


def covering(rules: Sequence[Rule], call: ProposedCall, workspace: WorkFolder) -> list[Rule] | None:
    """The rules that together allow all of a call; None when something in it is not allowed."""
    candidates = [rule for rule in rules if rule.answer == "allow" and _is_named(rule, call)]
    for rule in candidates:
        if (rule.command or not (rule.params or rule.closed)) and _covers(rule, call, workspace):
            return [rule]
    forms = [rule for rule in candidates if rule.command and _is_alike(rule, call, workspace)]
    by_forms = _covering_commands(forms, call) if forms else None
    if by_forms is not None:
        return by_forms
    by_arguments = [rule for rule in candidates if _is_about_arguments(rule, call, workspace)]
    places = CallArguments(call).fitting([ArgumentRule(rule.params, rule.closed) for rule in by_arguments])
    return None if places is None else [by_arguments[place] for place in sorted(places)]


ENVIRONMENT = "environment"
"""An argument of a command: which variables earlier commands have changed. It never comes from a model."""


def _is_about_arguments(rule: Rule, call: ProposedCall, workspace: WorkFolder) -> bool:
    """The same line is another command elsewhere, or with other variables: a rule that does not name them is not of it."""
    if rule.command or not (rule.params or rule.closed):
        return False
    if call.category != "execute" or not call.command:
        return True
    arguments = call.input if isinstance(call.input, dict) else {}
    is_told = ENVIRONMENT not in arguments or ENVIRONMENT in (rule.params or {})
    return is_told and (not call.cwd or workspace.holds(call.cwd))


def _is_named(rule: Rule, call: ProposedCall) -> bool:
    if rule.call_id and rule.call_id != call.id:
        return False
    if rule.category and rule.category != call.category:
        return False
    if rule.tool and not matches(rule.tool, call.tool):
        return False
    if not rule.server or not call.server:
        return not rule.server
    return any(matches(rule.server, server) for server in _servers(rule, call))


def _servers(rule: Rule, call: ProposedCall) -> Iterator[str]:
    """The server of a call. In `mcp__a__b__c` it may be `a` or `a__b`: a rule that denies or asks means either."""
    yield call.server
    _, separator, after = call.tool.partition(f"{call.server}__")
    if rule.answer != "allow" and separator:
        parts = after.split("__")
        yield from ("__".join((call.server, *parts[:count])) for count in range(1, len(parts)))


def _covers(rule: Rule, call: ProposedCall, workspace: WorkFolder) -> bool:
    if rule.command:
        return bool(call.command) and rule.command == call.command and _is_alike(rule, call, workspace)
    if rule.path:
        return bool(call.paths) and all(_is_path(rule.path, path, call, workspace) for path in call.paths)
    if call.category in ("read", "edit") and not rule.tool:
        # A whole category speaks of the folder, as a mode does.
        may = workspace.holds if call.category == "read" else workspace.may_edit
        return (bool(call.paths) or call.is_confined) and all(may(path, call.cwd) for path in call.paths)
    return bool(rule.tool or rule.category or rule.server)


DESCRIPTIVE = frozenset({"description", "explanation", "justification", "reason", "title"})
"""Arguments of a shell tool with which a model says why it makes a call: they change nothing."""
PLACES = names("cwd directory workdir")
_BOUNDS = PLACES | names("max_output_tokens timeout timeout_ms timeoutMs yield_time_ms")
"""Arguments of a shell tool that say where it runs, which `ProposedCall.cwd` has, and how long it may take."""


_RISKS = names("riskLevel riskLevelReason security_risk")
"""Arguments with which a model says how dangerous it takes a command for."""


def other_arguments(call: ProposedCall) -> dict[str, str]:
    """Of a command: the arguments besides the line that could change what it does, such as one that asks for more rights."""
    return {name: spelled(value) for name, value in _others(call)}


def changing_argument(call: ProposedCall) -> str:
    """Of a command: an argument by which the same line could do something else (`env`, `shell`); empty: there is none.

    A number or a switch says how long or where in the background it runs, not what.
    """
    return next(
        (
            name
            for name, value in _others(call)
            if not isinstance(value, int | float | None) and name not in _RISKS
        ),
        "",
    )


def _others(call: ProposedCall) -> Iterator[tuple[str, Any]]:
    arguments = call.input if isinstance(call.input, dict) else {}
    for name, value in arguments.items():
        is_line = value in (call.command, [call.command])
        if not is_line and name not in DESCRIPTIVE and name not in _BOUNDS:
            yield name, value


def _is_alike(rule: Rule, call: ProposedCall, workspace: WorkFolder) -> bool:
    """Whether a command runs where the rule means it, with no other arguments than the rule was made for."""
    return _is_there(rule, call, workspace) and other_arguments(call) == (rule.params or {})


def _is_there(rule: Rule, call: ProposedCall, workspace: WorkFolder) -> bool:
    """`./run.sh` is another program in another folder: what a person granted holds for the folder it was asked in."""
    if rule.path:
        return _is_path(rule.path, ".", call, workspace)
    if rule.source == "grant":
        return {*workspace.reals(".", call.cwd)} == {*workspace.reals(".")}
    return workspace.holds(call.cwd or ".")


def _covering_commands(rules: Sequence[Rule], call: ProposedCall) -> list[Rule] | None:
    plain = parse(call.command) if call.command else None
    if plain is None:
        return None
    covering_rules = [
        next((rule for rule in rules if is_form(rule, words)), None) for words in plain.commands
    ]
    return None if None in covering_rules else [rule for rule in covering_rules if rule is not None]


def is_form(rule: Rule, words: Sequence[str]) -> bool:
    """Whether a command is the rule's: its words, then operands where the rule has room for them, and no other option.

    A word with `=` before any slash could be an assignment or a setting, and one that climbs could lead anywhere.
    """
    # What a person granted exactly may end with a glob of the shell.
    has_room = rule.command.endswith(FORM_END if rule.source == "grant" else _ANY_OPERANDS)
    beginning = rule.command[:-2].split() if has_room else rule.command.split()
    rest = words[len(beginning) :]
    if list(words[: len(beginning)]) != beginning or (rest and not has_room):
        return False
    return all(word in rule.options or is_plain_operand(word) for word in rest)


def is_plain_operand(word: str) -> bool:
    """A name or a path below the folder; no option, assignment, address, or file with more arguments (`@file`)."""
    if word.startswith(("-", "+", "/", "~", "@")) or "://" in word or ".." in word.split("/"):
        return False
    return "=" not in word.split("/", 1)[0]


def _touches_command(command: str, call: ProposedCall) -> bool:
    return any(_has_command(command, line) for line in _lines(call))


def _has_command(command: str, line: str) -> bool:
    form = _words(command)
    return any(_begins(fragment.split(), form) for fragment in fragments_of(line))


def _words(command: str) -> list[str]:
    return command.removesuffix(" *").removesuffix(FORM_END).split()


_IS_A_LINE = re.compile(r"command|cmd|script|code|shell|exec|line", re.IGNORECASE)


def _lines(call: ProposedCall, *, is_certain: bool = True) -> Iterator[str]:
    """The command line, and every text that could be one where it is not known what the call does.

    `is_certain` False: only texts that are called so. Any other would have to be a command to be looked at more closely.
    """
    if call.command:
        yield call.command
    if call.category in ("execute", "mcp", "unknown"):
        arguments = call.input if isinstance(call.input, dict) else {"command": call.input}
        for name, value in arguments.items():
            if isinstance(value, str | list) and (is_certain or _IS_A_LINE.search(name)):
                yield spelled(value)


def _begins(words: list[str], form: list[str]) -> bool:
    """Whether these words come first, with options and their values between them: `git -C x push`."""
    if not words or not form or not matches(form[0], words[0]):
        return False
    position = 1
    for word in form[1:]:
        while position < len(words) and not matches(word, words[position]):
            if not words[position].startswith("-"):
                return False
            # The option's value, unless that is what is looked for.
            has_value = position + 1 < len(words) and not matches(word, words[position + 1])
            position += 2 if has_value and not words[position + 1].startswith("-") else 1
        if position == len(words):
            return False
        position += 1
    return True


_WORDS = re.compile(r"[^\s;&|<>()`]+")
_QUOTES = re.compile(r"[\\'\"]")


def _touches_path(glob: str, call: ProposedCall, workspace: WorkFolder) -> bool:
    globs = list(_globs(glob, workspace))
    return any(
        _is_glob_of(each, form, is_broad=True)
        for path, cwd in _named_paths(call, workspace)
        for form in _forms(path, cwd, workspace)
        for each in globs
    )


def _named_paths(call: ProposedCall, workspace: WorkFolder) -> Iterator[tuple[str, str]]:
    """Everything in a call that may be a path, and the folders from which it may be meant."""
    for path in call.paths:
        yield path, call.cwd
    if call.category in ("mcp", "unknown") or (call.category == "execute" and not call.command):
        yield from ((text, call.cwd) for text in _texts_in(call.input) if len(text) < _LONGEST_PATH)
    for line in settled(call.command) if call.command else ():
        yield from _paths_in_line(line, call, workspace)


def _paths_in_line(line: str, call: ProposedCall, workspace: WorkFolder) -> Iterator[tuple[str, str]]:
    words = [part for word in _WORDS.findall(line) for part in parts_of(_QUOTES.sub("", word))]
    places = [after for before, after in pairwise(words) if before in _CHANGES_FOLDER]
    for cwd in (call.cwd, *(os.path.join(call.cwd, place) for place in places)):
        for word in words:
            yield word, cwd
            yield from ((path, cwd) for path in matched(word, cwd, workspace))


_LONGEST_PATH = 4096
_OF_A_PROCESS = re.compile(r"/+proc/+[^/]+/+(?:task/+\d+/+)?(cwd|root)(?=/|$)")
_MOST_MATCHES = 1000
_CHANGES_FOLDER = names("cd chdir pushd -C --chdir --cwd --directory --prefix")
_BETWEEN_PARTS = re.compile(r"[=:,]|^@")
_WITH_ITS_VALUE = re.compile(r"-[A-Za-z](?:[A-Za-z]+([./~].*)|[^-])")
_SOME_LETTERS = re.compile(r"\[[!^]?\]?(?:\[[:.=][^\]]*\]|[^\]\[])+\]")
_CHOICES = re.compile(r"\{([^{},]*(?:,[^{},]*)+)\}")


def parts_of(word: str) -> Iterator[str]:
    """A word, and what of it may be a path by itself: `x=@.env`, `HEAD:.env`, `-f.env`, `type=bind,src=.`."""
    yield word
    parts = _BETWEEN_PARTS.split(word) if _BETWEEN_PARTS.search(word) else []
    if option := _WITH_ITS_VALUE.match(word):
        parts += [word[2:], option[1] or ""]
    yield from (each for part in parts if (each := part.lstrip("@")))


def matched(word: str, cwd: str, workspace: WorkFolder) -> Iterator[str]:
    """The files that a shell would put in the place of a word with a glob or with choices.

    Shells do not agree on what `[^x]` and `[[:alpha:]]` are: any letter may be one of them.
    """
    from glob import iglob

    word = _SOME_LETTERS.sub("?", word)

    if choice := _CHOICES.search(word):
        for part in choice[1].split(","):
            whole = word[: choice.start()] + part + word[choice.end() :]
            yield whole
            yield from matched(whole, cwd, workspace)
    elif re.search(r"[*?\[]", word):
        yield from islice(iglob(os.path.join(workspace.root, cwd, os.path.expanduser(word))), _MOST_MATCHES)


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)


def _is_path(glob: str, path: str, call: ProposedCall, workspace: WorkFolder) -> bool:
    """Narrowly: where the path really leads, however it is read."""
    reals = workspace.reals(path, call.cwd)
    return bool(reals) and all(
        any(_is_glob_of(each, real, is_broad=False) for each in _globs(glob, workspace)) for real in reals
    )


def _globs(glob: str, workspace: WorkFolder) -> Iterator[str]:
    glob = os.path.expanduser(glob)
    if os.path.isabs(glob):
        yield glob
    else:
        yield f"{workspace.root.rstrip('/')}/{glob.removeprefix('./')}"
        yield glob


def _forms(path: str, cwd: str, workspace: WorkFolder) -> Iterator[str]:
    """A path as written, as meant, and where it leads."""
    if match := _OF_A_PROCESS.match(
        path
    ):  # where its own folder is, only that process knows: it is taken for this one
        path = f"{workspace.root if match[1] == 'cwd' else ''}{path[match.end() :]}" or "/"
    yield os.path.normpath(path)
    yield os.path.normpath(os.path.join(workspace.root, cwd, os.path.expanduser(path)))
    for real in workspace.reals(path, cwd):
        yield real
        if is_below(real, workspace.root):
            yield os.path.relpath(real, workspace.root)


def _is_glob_of(glob: str, path: str, *, is_broad: bool) -> bool:
    """Broadly: also what lies below it, and a name without a slash in any folder."""
    is_folder, glob = glob.endswith("/"), glob.rstrip("/")
    if matches(glob, path):
        return True
    if (is_broad or is_folder) and matches(f"{glob}/*", path):
        return True
    return is_broad and "/" not in glob and any(matches(glob, name) for name in path.split("/"))
