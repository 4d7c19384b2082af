"""A throw-away project for an agent to work in, always the same."""

from __future__ import annotations

import os
import sys

from harness.lab import echo_server

_LINES = "".join(f"line_{number} = {number}\n" for number in range(1, 41))
_SKILL = """---
name: {name}
description: Greets people. Use it when somebody is to be greeted.
---

Say hello politely.
"""
_FILES = {
    "README.md": "# Demo\n\nA project of the lab.\n",
    "src/app.py": _LINES,
    # An empty repository: several agents look for one.
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
}
_FOLDERS = (".git/objects", ".git/refs/heads")


def set_out(folder: str, *, skills_folder: str = "", skill: str = "") -> None:
    files = dict(_FILES)
    if skill and skills_folder:
        files[f"{skills_folder}/{skill}/SKILL.md"] = _SKILL.format(name=skill)
    for name in _FOLDERS:
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)


def echo_command() -> tuple[str, ...]:
    """What starts the MCP server of the lab."""
    return (sys.executable, "-I", "-S", os.path.abspath(echo_server.__file__))
