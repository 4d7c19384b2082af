"""Files of a project that a text makes a program run: those that it names, and those that known programs obey.

To trust `run ./tool.sh` is to trust what that file says, and `make setup` is to trust the Makefile. A text is looked
through as it is, with the escapes of JSON and TOML written out, and without the quotes of a shell. What a program loads
in turn (modules, other scripts) is not known from here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

_NAME = re.compile(r"[\w.@+,~-]+(?:/[\w.@+,~-]+)*")
_VARIABLE = re.compile(r"\$\{?\w+\}?/?|file://")
_QUOTED = (re.compile(r"\"([^\"\n]+)\""), re.compile(r"'([^'\n]+)'"))
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|(/))")
_SHELL_QUOTES = re.compile(r"[\\'\"]")
_MODULE = re.compile(r"(?<![\w-])-m[\s\"',]+([\w.]+)")
_TEXT = (".md", ".mdc", ".txt", ".rst", ".adoc")
_MOST_NAMES = 5_000
_MOST_FOLDERS = 20
_MOST_NAMES_IN_FOLDERS = 500
_PACKAGE = ("package.json", ".npmrc")
_OBEYED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "bunx"), _PACKAGE),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml"),
    "rake": ("Rakefile", "rakefile", "Rakefile.rb"),
    "deno": ("deno.json", "deno.jsonc"),
    "cargo": ("Cargo.toml", "build.rs", ".cargo/config.toml", ".cargo/config"),
    "mise": ("mise.toml", ".mise.toml"),
    "tox": ("tox.ini", "pyproject.toml", "setup.cfg"),
    "nox": ("noxfile.py",),
    "invoke": ("tasks.py",),
    "pytest": ("conftest.py", "pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini"),
    "pre-commit": (".pre-commit-config.yaml",),
    "lefthook": ("lefthook.yml", "lefthook.yaml"),
    "docker": ("Dockerfile", "compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"),
    "docker-compose": ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"),
    "gradle": ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
    "gradlew": ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
    "mvn": ("pom.xml",),
    "ant": ("build.xml",),
    "go": ("go.mod",),
    **dict.fromkeys(
        ("uv", "uvx", "poetry", "pdm", "hatch", "pip"), ("pyproject.toml", "setup.py", "setup.cfg")
    ),
    "composer": ("composer.json",),
    "bundle": ("Gemfile",),
    **dict.fromkeys(("node", "tsx", "ts-node"), _PACKAGE),
}
"""Program → files of the folder in which it is started by which it knows what to run."""
_OF_A_FOLDER = (
    "__main__.py",
    "__init__.py",
    "index.js",
    "index.ts",
    "index.mjs",
    "package.json",
    "main.go",
    "Makefile",
)
"""What programs run of a folder that they are given."""
_RECIPES = frozenset(name for names in _OBEYED.values() for name in names)


class NamedFile(NamedTuple):
    name: str
    """From the folder on."""
    path: str
    """Where it really is."""


def named_files(data: bytes, folder: str) -> Iterator[NamedFile]:
    """Files below a folder that a text names anywhere, but documents, and those that programs which it names obey."""
    top = os.path.realpath(folder)
    names: set[str] = set()
    waiting = [data]
    while waiting:
        for name in _candidates(list(dict.fromkeys(_names_in(waiting.pop(0)))), top):
            if name in names or (file := _file_below(name, top)) is None:
                continue
            names.add(name)
            yield file
            # A recipe says in turn what is run.
            if os.path.basename(name) in _RECIPES:
                waiting.append(_content(file.path))


def _candidates(names: list[str], top: str) -> Iterator[str]:
    """Names as they are written, and as seen from a folder that is named, too: `cd tools && make setup`."""
    yield from names
    folders = [name for name in names if _is_folder(os.path.join(top, name))][:_MOST_FOLDERS]
    for folder in folders:
        yield from (f"{folder}/{name}" for name in (*_OF_A_FOLDER, *names[:_MOST_NAMES_IN_FOLDERS]))


def _names_in(data: bytes) -> Iterator[str]:
    text = data.decode("utf-8", "replace")
    plain = _ESCAPE.sub(_written_out, text)
    texts = dict.fromkeys(_VARIABLE.sub(" ", each) for each in (text, plain, _SHELL_QUOTES.sub("", plain)))
    words = list(dict.fromkeys(word for each in texts for word in _NAME.findall(each)))[:_MOST_NAMES]
    for word in words:
        yield word
        yield from _OBEYED.get(word.rpartition("/")[2], ())
    for module in dict.fromkeys(_MODULE.findall(plain)):
        path = module.replace(".", "/")
        yield from (f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py")
    for quotes in _QUOTED:  # a name with a blank in it
        for quoted in quotes.findall(plain)[:_MOST_NAMES]:
            yield _VARIABLE.sub("", quoted).rstrip("\\").removeprefix("./")


def _written_out(escape: re.Match[str]) -> str:
    number = escape[1] or escape[2] or escape[3]
    try:
        return chr(int(number, 16)) if number else escape[4]
    except (ValueError, OverflowError):
        return escape[0]


def _file_below(name: str, top: str) -> NamedFile | None:
    path = os.path.join(top, name)
    try:
        real = os.path.realpath(path)
        is_file = os.path.isfile(real)
    except ValueError:  # it has a character that no name has
        return None
    if not is_file or not real.startswith(f"{top}{os.sep}") or real.lower().endswith(_TEXT):
        return None
    return NamedFile(os.path.relpath(path, top), real)


def _is_folder(path: str) -> bool:
    try:
        return os.path.isdir(path)
    except ValueError:
        return False


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""
