"""Git's configuration, read without git: what of it is not known to be harmless."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_SECTION = re.compile(r'\[([a-zA-Z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?\]')
_ESCAPED = re.compile(r"\\(.)")
_ASSIGNMENT = re.compile(r"([a-zA-Z][a-zA-Z0-9-]*)\s*(?:=\s*(.*))?")
_LONGEST_BYTES = 100_000
_HARMLESS = {
    "advice": "*",
    "branch": "*",
    "color": "*",
    "column": "*",
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol "
    "safecrlf abbrev bigfilethreshold compression longpaths quotepath untrackedcache",
    "extensions": "objectformat refstorage worktreeconfig",
    "fetch": "prune prunetags",
    "gc": "auto",
    "init": "defaultbranch",
    "lfs": "repositoryformatversion access locksverify",
    "merge": "conflictstyle ff",
    "pull": "rebase ff",
    "push": "default autosetupremote followtags",
    "rebase": "autosquash autostash updaterefs",
    "remote": "url pushurl fetch push tagopt prune gh-resolved",
    "rerere": "enabled autoupdate",
    "submodule": "url active branch",
    "user": "name email signingkey",
}
"""Section → keys by which nothing is run; `*`: none of its keys runs anything."""
_BUILT_IN = {"core.fsmonitor": ("true", "false")}
"""Keys that name a program, unless they have one of these values."""


class GitSetting(NamedTuple):
    name: str
    """`section.subsection.key`, as git spells it; a line that is not understood stands for itself."""
    value: str


def unknown_settings(text: str) -> list[GitSetting]:
    """All settings of a configuration that are not known to be harmless, and lines that are not understood."""
    settings: list[GitSetting] = []
    section, subsection = "", ""
    for whole in re.split(r"[\r\n]+", text.removeprefix("\ufeff")):
        line = whole.strip()
        while heading := _SECTION.match(line):
            section, _, old_style = heading[1].lower().partition(".")
            subsection = _ESCAPED.sub(r"\1", heading[2]) if heading[2] is not None else old_style
            line = line[heading.end() :].strip()
        if not line or line[0] in "#;":
            continue
        assignment = _ASSIGNMENT.fullmatch(line)
        if assignment is None:
            settings.append(GitSetting(repr(line[:40]), line))
            continue
        key, value = assignment[1].lower(), assignment[2] or ""
        if not _is_harmless(section, key, value):
            settings.append(GitSetting(".".join(filter(None, (section, subsection, key))), value))
    return settings


def unknown_in_file(path: str) -> list[GitSetting]:
    """Of a file; none where there is no file. Raises OSError for one that cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    with open(descriptor, "rb") as file:
        data = file.read(_LONGEST_BYTES + 1)
    if len(data) > _LONGEST_BYTES:
        return [GitSetting("too much to be read", "")]
    return unknown_settings(data.decode("utf-8", "replace"))


def _is_harmless(section: str, key: str, value: str) -> bool:
    if "::" in value or value.startswith("-") or value.endswith("\\"):
        return False  # a transport that is a program, an option, a line that continues
    if value.lower() in _BUILT_IN.get(f"{section}.{key}", ()):
        return True
    keys = _HARMLESS.get(section, "")
    return keys == "*" or key in keys.split()
