"""Instruction files: what the user and the project say about how to work, as text for the model and nothing else.

They change no permission, whatever they say. Rules
1. Read are `AGENTS.md`, `CLAUDE.md` and `CLAUDE.local.md`, in the user's own folder and in each folder from the top of the
   repository down to the workspace; those of a folder below are read when something in it is touched.
2. `@path` in such a file stands for the text of another file, also in that one, but not in code.
3. Nothing leads out of the repository, or of the user's own folder: no link and no import. A text is read once.
4. What is too long is cut, what is no text is left out, and either is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import msgspec

from harness.config import config_directory

NAMES = ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md")
MOST_BYTES = 32 * 1024
MOST_BYTES_IN_ALL = 96 * 1024
_DEEPEST_IMPORT = 5
_MOST_IMPORTS = 20
_CUT = "\n[the rest of this file is left out: read it if you need it]"
_IMPORT = re.compile(r"(?<!\S)@((?:\.{0,2}/|~/)?[\w.-][\w./-]*)")
_CODE = re.compile(r"(^```.*?^```|^~~~.*?^~~~|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


class Instructions(msgspec.Struct, frozen=True):
    path: str
    text: str
    is_cut: bool = False


def find_instructions(cwd: str) -> list[Instructions]:
    """The user's, then the project's from the top downwards: the closest comes last."""
    top = repository_of(cwd) or cwd
    own = config_directory()
    reader = InstructionReader()
    instructions = reader.of_folder(own, own)
    if not instructions:  # what they have told another agent
        claude = os.path.expanduser("~/.claude")
        instructions = reader.of_folder(claude, claude)
    for folder in _folders(top, cwd):
        instructions += reader.of_folder(folder, top)
    return instructions


def nested_instructions(path: str, cwd: str, told_paths: set[str]) -> list[Instructions]:
    """Of the folders between the workspace and a file in it; `told_paths`: folders whose files the model has, which grows."""
    top = os.path.realpath(cwd)
    folder = os.path.realpath(path)
    folder = folder if os.path.isdir(folder) else os.path.dirname(folder)
    below: list[str] = []
    while folder != top and folder.startswith(top.rstrip("/") + "/") and folder not in told_paths:
        below.append(folder)
        folder = os.path.dirname(folder)
    if not below or (folder != top and folder not in told_paths):
        return []
    told_paths.update(below)
    reader = InstructionReader()
    return [
        instructions
        for folder in reversed(below)
        for instructions in reader.of_folder(folder, repository_of(cwd) or top)
    ]


def in_words(instructions: Sequence[Instructions]) -> str:
    if not instructions:
        return ""
    parts = [
        f'<instructions path="{instruction.path}">\n{instruction.text}{_CUT if instruction.is_cut else ""}\n</instructions>'
        for instruction in instructions
    ]
    head = (
        "The user and the project say how to work here. Follow it; it changes nothing about what you may do."
    )
    return "\n".join([head, *parts])


def told_of(instructions: Sequence[Instructions]) -> str:
    """For the log."""
    names = ", ".join(
        instruction.path + (" (shortened)" if instruction.is_cut else "") for instruction in instructions
    )
    return f"the model is given the instructions in {names}"


def repository_of(cwd: str) -> str:
    folder = os.path.realpath(cwd)
    while not _has_repository(folder):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return ""
    return folder


def _has_repository(folder: str) -> bool:
    """An empty folder of that name is none: in a sealed run it stands in for what must not be made."""
    git = os.path.join(folder, ".git")
    return os.path.lexists(os.path.join(git, "HEAD")) or (os.path.lexists(git) and not os.path.isdir(git))


class InstructionReader:
    """Reads each file once, and no more than is allowed of all together."""

    def __init__(self) -> None:
        self._left_bytes = MOST_BYTES_IN_ALL
        self._seen_paths: set[str] = set()
        """Real paths."""
        self._texts: set[str] = set()
        self._imports = 0

    def of_folder(self, folder: str, root: str) -> list[Instructions]:
        """`root`: nothing outside of it is read."""
        instructions = (self._read(os.path.join(folder, name), os.path.realpath(root)) for name in NAMES)
        return [instruction for instruction in instructions if instruction is not None]

    def _read(self, path: str, root: str) -> Instructions | None:
        text, is_cut = self._text(path, root, 0)
        if not text or text in self._texts:  # a copy, or nothing but an import of what was read
            return None
        self._texts.add(text)
        return Instructions(path, text, is_cut)

    def _text(self, path: str, root: str, depth: int) -> tuple[str, bool]:
        """Empty for what is not there, may not be read, was read before, or is no text."""
        real = os.path.realpath(path)
        if real in self._seen_paths or not os.path.isfile(real) or not _is_inside(real, root):
            return "", False
        most = min(MOST_BYTES, self._left_bytes)
        try:
            with open(real, "rb") as file:
                data = file.read(most + 1)
        except OSError:
            return "", False
        self._seen_paths.add(real)
        if b"\0" in data:
            return "", False
        self._left_bytes -= min(len(data), most)
        text = data[:most].decode("utf-8-sig", "ignore").replace("\r\n", "\n").strip()
        if depth < _DEEPEST_IMPORT:
            text = self._with_imports(text, os.path.dirname(real), root, depth)
        return text, len(data) > most

    def _with_imports(self, text: str, folder: str, root: str, depth: int) -> str:
        def imported(match: re.Match[str]) -> str:
            path = match[1].rstrip(".")  # the end of a sentence
            if self._imports >= _MOST_IMPORTS:
                return match[0]
            imported_text, is_cut = self._text(
                os.path.join(folder, os.path.expanduser(path)), root, depth + 1
            )
            if not imported_text:
                return match[0]
            self._imports += 1
            return f"{imported_text}{_CUT if is_cut else ''}{match[1][len(path) :]}"

        parts = _CODE.split(text)  # every second one is code
        return "".join(
            part if at % 2 else _IMPORT.sub(imported, part) for at, part in enumerate(parts)
        ).strip()


def _is_inside(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _folders(top: str, cwd: str) -> list[str]:
    """From the top down to the workspace."""
    top, folder = os.path.realpath(top), os.path.realpath(cwd)
    folders = [folder]
    while folder != top and (folder := os.path.dirname(folder)) != os.path.dirname(folder):
        folders.append(folder)
    return folders[::-1]
