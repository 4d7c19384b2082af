"""The rules that are written down: in the user's config.toml, and in a project's harness.toml.

    [[permissions.rules]]
    answer = "deny"
    command = "git push"

A project's file comes with the project: of it only rules that ask or deny count. A rule that is wrong is an error, with
its file and line: to leave it out could allow what it was meant to deny.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

from harness.approvals.call import CATEGORIES
from harness.approvals.globs import problem_of
from harness.approvals.rules import Rule
from harness.config.files import Layer, Settings, load, user_file
from harness.config.own_file import write_own_file
from harness.config.settings import key_to_toml, to_toml
from harness.errors import BadConfig, UsageError

KEY = "permissions.rules"
TEXTS = ("tool", "command", "path", "server", "agent", "category", "reason")
_KEYS = ("answer", *TEXTS)
_HEAD = re.compile(r"^[ \t]*\[\[[ \t]*permissions[ \t]*\.[ \t]*rules[ \t]*\]\][ \t]*(?:#.*)?$", re.MULTILINE)


class WrittenRules(NamedTuple):
    rules: list[Rule]
    ignored: list[Rule]
    """Rules of a project's file that would allow something: they do not count."""


def load_rules(directory: str) -> WrittenRules:
    """The rules that hold in a folder. Raises BadConfig for one that is wrong."""
    return rules_of(load(directory))


def rules_of(settings: Settings) -> WrittenRules:
    rules: list[Rule] = []
    ignored: list[Rule] = []
    for layer in settings.layers:
        if any(problem.is_error and problem.key.startswith("permissions") for problem in layer.problems):
            settings.require_valid()
        for rule in _rules_in(layer):
            is_ignored = rule.source == "project" and rule.answer == "allow"
            (ignored if is_ignored else rules).append(rule)
    return WrittenRules(rules, ignored)


def _rules_in(layer: Layer) -> Iterator[Rule]:
    is_own = os.path.abspath(layer.path) == os.path.abspath(user_file())
    lines = [layer.text.count("\n", 0, head.start()) + 1 for head in _HEAD.finditer(layer.text)]
    entries = layer.values.get(KEY, ())
    for number, entry in enumerate(entries):
        line = lines[number] if len(lines) == len(entries) else 0
        place = f"{layer.path}:{line}" if line else layer.place(KEY)
        yield checked_rule(entry, place, "user" if is_own else "project")


def checked_rule(entry: dict[str, Any], place: str, source: Any = "user") -> Rule:
    """A rule as it is written. Raises BadConfig, naming the place."""
    if unknown := [key for key in entry if key not in _KEYS]:
        raise BadConfig(
            f"{place}: unknown key in a rule: {unknown[0]}", hint=f"there are: {', '.join(_KEYS)}"
        )
    if entry.get("answer") not in ("allow", "ask", "deny"):
        raise BadConfig(f"{place}: a rule has no answer", hint='answer = "allow", "ask" or "deny"')
    if wrong := [key for key in TEXTS if not isinstance(entry.get(key, ""), str)]:
        raise BadConfig(f"{place}: {wrong[0]} of a rule is no text", hint=f'{wrong[0]} = "…"')
    conditions = {key: entry[key] for key in TEXTS if entry.get(key)}
    if not conditions.keys() - {"reason", "agent"}:
        raise BadConfig(
            f"{place}: a rule names nothing", hint="give it a tool, command, path, server or category"
        )
    if conditions.get("category", "read") not in CATEGORIES:
        raise BadConfig(
            f"{place}: unknown category: {conditions['category']}",
            hint=f"one of {', '.join(sorted(CATEGORIES))}",
        )
    for key in ("tool", "path", "server"):
        if key in conditions and (problem := problem_of(conditions[key])):
            raise BadConfig(f"{place}: {problem}", hint="a backslash takes the next character as it is")
    return Rule(answer=entry["answer"], **conditions, source=source, place=place)


def add_rule(entry: dict[str, str]) -> str:
    """Append a rule to the user's file; returns its path. Raises BadConfig or UsageError, and then changes nothing."""
    path = user_file()
    checked_rule(entry, path)
    text = _text_of(path)
    words = "".join(f"{key_to_toml(key)} = {to_toml(value)}\n" for key, value in entry.items() if value)
    _store(path, f"{text.rstrip()}\n\n[[permissions.rules]]\n{words}".lstrip("\n"))
    return path


def remove_rule(number: int) -> str:
    """Remove the rule of this number, counted from 1, from the user's file. Raises UsageError."""
    path = user_file()
    text = _text_of(path)
    heads = list(_HEAD.finditer(text))
    if not 1 <= number <= len(heads):
        raise UsageError(f"{path} has no rule {number}", hint="`harness permissions list` numbers them")
    start = heads[number - 1].start()
    after = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, heads[number - 1].end())
    end = after.start() if after is not None else len(text)
    _store(path, text[:start] + text[end:])
    return path


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", hint="mend it by hand"
        ) from error


def _store(path: str, text: str) -> None:
    """Checked first."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} would not be valid TOML: {error}", hint="write the rule by hand") from error
    write_own_file(text)
