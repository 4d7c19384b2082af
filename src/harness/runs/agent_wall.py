"""The wall around an agent program (`--sandbox`): the workspace, the agent's own folders, and its model's network.

Of the user's home only that is seen which the program cannot do without: its own folders (`Agent.homes`), where it and
the programs on PATH are installed, and git's settings. What it writes elsewhere in the home is thrown away.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from harness.approvals.protected import OBEYED
from harness.config import config_directory, data_directory
from harness.contracts.agent import OUR_PYTHON, Agent
from harness.runs.held_settings import settings_folder
from harness.sandbox.rungs import TEMPORARY
from harness.sandbox.wall import Wall

_BASES = {
    "~/.config/": "XDG_CONFIG_HOME",
    "~/.local/share/": "XDG_DATA_HOME",
    "~/.local/state/": "XDG_STATE_HOME",
    "~/.cache/": "XDG_CACHE_HOME",
}
_ALWAYS_READ = (
    "~/.gitconfig",
    "~/.config/git/config",
    "~/.config/git/ignore",
    "~/.config/git/attributes",
    "~/.rustup",
)
"""Without what holds passwords: `~/.config/git/credentials` is one."""
_CERTIFICATES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
)
_PROGRAM_FOLDERS = frozenset({"bin", "sbin", "shims", "libexec"})
_BESIDE_PROGRAMS = ("lib", "libexec", "share", "versions", "pyvenv.cfg")
_MOST_HOPS = 10
_FIRST_LINE_BYTES = 300
_VARIABLE = re.compile(r"\$(\w+)")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def agent_wall(agent: Agent, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> Wall:
    """`argv`: as it will be started; files that it names may be read. Makes the agent's own folders where they are missing."""
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    own = []
    for name in agent.homes:
        if path := _expanded(name, home, env):
            own.append(path)
            if name.endswith("/"):
                with suppress(OSError):  # then it has none, and does without
                    os.makedirs(path, mode=0o700, exist_ok=True)
    hidden = [path for path in (home, config_directory(), data_directory()) if _is_folder(path)]
    named_files = [env[name] for name in (*_CERTIFICATES, *agent.key_variables) if env.get(name)]
    readable = [
        *(path for name in _ALWAYS_READ if (path := _expanded(name, home, env))),
        *(path for path in (*argv[1:], *named_files, *_own_files(env)) if os.path.isabs(path)),
        *_program_roots(argv[0], env, home),
        *(_own_program() if OUR_PYTHON in env else ()),
    ]
    covered = (*hidden, TEMPORARY)
    return Wall(
        workspaces=(cwd,),
        writable=tuple(own),
        hidden=tuple(hidden),
        readable=tuple(path for path in readable if _is_below(path, covered) and os.path.exists(path)),
        network="host",
        discards=OBEYED.get(agent.name, ()),
    )


def hiding_wall(
    hidden: Sequence[str],
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    wall: Wall | None = None,
) -> Wall:
    """A wall that hides these, but for the folder that the program works in, its home, and what it cannot do without.

    `wall`: one that it has already; else in all that is not hidden it may do what it could do without one.
    """
    wall = wall or Wall(confines=False, network="host")
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    named_paths = [path for path in (*argv, *_own_files(env)) if os.path.isabs(path)]
    named_paths += _program_roots(argv[0], env, home)
    named_paths += [] if home in wall.hidden else [home]
    own = (cwd,) if wall.confines else (cwd, home)
    return replace(
        wall,
        hidden=(*wall.hidden, *hidden),
        writable=(*wall.writable, *(path for path in own if _is_below(path, hidden))),
        readable=(*wall.readable, *(path for path in named_paths if _is_below(path, hidden))),
    )


def with_blanks(wall: Wall, before: object) -> Wall:
    """A wall behind which is not seen, either, what the one before it would hide: settings of the folder, for example."""
    if not isinstance(before, Wall):
        return wall
    names = [os.path.join(place, name) for place in before.workspaces for name in before.protected or ()]
    return replace(wall, settings=before.settings, blank=(*names, *before.blank))


def _own_files(env: Mapping[str, str]) -> list[str]:
    """Files of ours that the program finds by a variable: settings that it could not see would not hold it."""
    folders = (_PACKAGE, settings_folder())
    return [value for value in env.values() if os.path.isabs(value) and _is_below(value, folders)]


def _own_program() -> list[str]:
    """What a hook of ours needs that the agent runs."""
    return [*dict.fromkeys((sys.prefix, sys.base_prefix, _PACKAGE))]


def has_settings(agent: str, cwd: str) -> bool:
    """Whether the folder, or one above it, has something that the agent would obey."""
    folder = os.path.realpath(cwd)
    while True:
        if any(os.path.lexists(os.path.join(folder, name)) for name in OBEYED.get(agent, ())):
            return True
        if folder == os.path.dirname(folder):
            return False
        folder = os.path.dirname(folder)


def _expanded(name: str, home: str, env: Mapping[str, str]) -> str:
    """Empty where a variable of the name is not set."""
    if any(not env.get(variable) for variable in _VARIABLE.findall(name)):
        return ""
    for prefix, variable in _BASES.items():
        if name.startswith(prefix) and env.get(variable):
            return os.path.join(env[variable], name.removeprefix(prefix))
    name = _VARIABLE.sub(lambda match: env[match[1]], name)
    return os.path.join(home, name[2:]) if name.startswith("~/") else os.path.abspath(name)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and os.path.realpath(path) != os.sep


def _is_below(path: str, folders: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    return any(real.startswith(os.path.realpath(folder).rstrip(os.sep) + os.sep) for folder in folders)


def _program_roots(program: str, env: Mapping[str, str], home: str) -> Iterator[str]:
    """Where the program, its interpreter, and the programs on PATH are installed."""
    shared = {home, os.path.join(home, ".local"), os.sep}
    on_path = [folder for folder in env.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    for path in (*(os.path.join(folder, "x") for folder in on_path), *_hops(program)):
        root = _root_of(path)
        yield os.path.dirname(path) if root in shared else root


def _root_of(file: str) -> str:
    parts = file.split(os.sep)
    if "node_modules" in parts:
        return os.sep.join(parts[: parts.index("node_modules") + 1])
    folder = os.path.dirname(file)
    above = os.path.dirname(folder)
    is_prefix = os.path.basename(folder) in _PROGRAM_FOLDERS and any(
        os.path.exists(os.path.join(above, name)) for name in _BESIDE_PROGRAMS
    )
    return above if is_prefix else folder


def _hops(program: str) -> Iterator[str]:
    """A program, what it is a link to, and the interpreter that its first line names."""
    for _ in range(_MOST_HOPS):
        if not os.path.isabs(program):
            return
        yield program
        if os.path.islink(program):
            program = os.path.normpath(os.path.join(os.path.dirname(program), os.readlink(program)))
            continue
        try:
            with open(program, "rb") as file:
                line = file.readline(_FIRST_LINE_BYTES)
        except OSError:
            return
        program = os.fsdecode(line[2:].split()[0]) if line.startswith(b"#!") and line[2:].split() else ""
