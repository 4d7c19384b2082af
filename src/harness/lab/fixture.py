"""How to run an agent offline: its environment, its settings, its wire API, and how each meaning is called.

Each file of `benches/` defines one `BENCH`; the file's name is the agent's. A bench only describes;
`set_up` writes, and only below the throw-away home it is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeAlias

import msgspec

from harness.errors import UsageError
from harness.lab import fixtures
from harness.sources.agent import Version
from harness.sources.models.script import Alternatives, Intent, ScriptToolCall, intent_name

KEY = "lab-key"
"""What stands where a credential would: the scripted model takes any."""


class LabContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where a bench is put up."""

    url: str
    """Of the scripted model, without a slash at its end."""
    home: str
    """A folder of its own that may be thrown away."""
    cwd: str
    """Where the agent works."""
    version: Version = ()
    """Of the agent; empty when unknown, which counts as the newest."""
    mcp_servers: Mapping[str, tuple[str, ...]] = {}
    """Name → the command that starts it."""

    def absolute(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.cwd, path))

    def page(self, url: str) -> str:
        return self.url + url if url.startswith("/") else url

    def is_at_least(self, *version: int) -> bool:
        return not self.version or self.version >= version


class LaunchConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent needs to talk to the scripted model and to nobody else."""

    env: Mapping[str, str]
    files: Mapping[str, str] = {}
    """Path below the home → content."""
    args: tuple[str, ...] = ()
    model: str = ""


class CallSteps(msgspec.Struct, frozen=True, kw_only=True):
    """A meaning that takes one agent more than one call."""

    calls: tuple[ScriptToolCall | Alternatives, ...]
    then: tuple[ScriptToolCall, ...] = ()
    """Made in a turn of their own, after the results of `calls`. `{{each expression}}` in their input is the
    match that belongs to this meaning, when several in one turn each have one."""


RenderCall: TypeAlias = Callable[[Any, LabContext], ScriptToolCall | Alternatives | CallSteps]


class AgentFixture(msgspec.Struct, frozen=True, kw_only=True):
    """Contract: `rig` and the renderings do no I/O. Every meaning is in `calls` or, with the reason, in `lacks`."""

    wire: str
    """A file of `wires/`."""
    rig: Callable[[LabContext], LaunchConfig]
    calls: Mapping[str, RenderCall]
    lacks: Mapping[str, str] = {}
    since: Mapping[str, Version] = {}
    """Of what is in `calls` and older versions lack: the first version that has it."""
    agent_end: Callable[[str], ScriptToolCall] | None = None
    """How a sub-agent must end, when a text of its own is not enough."""
    skills_folder: str = ""
    """Where it looks for skills, below the working directory."""
    side_markers: tuple[str, ...] = ()
    """Texts that only its own side requests hold, though these offer tools."""

    def why_lacking(self, name: str, version: Version = ()) -> str:
        """Why a meaning has no call in this version, by default in the newest; empty when it has one."""
        if name not in self.calls:
            return self.lacks.get(name, f"it has no tool to {name}")
        first = self.since.get(name, ())
        if version and version < first:
            return f"it has no {name} before version {'.'.join(map(str, first))}"
        return ""

    def render(self, meaning: Intent, place: LabContext) -> CallSteps:
        """Raises KeyError for what it lacks."""
        made = self.calls[intent_name(meaning)](meaning, place)
        steps = made if isinstance(made, CallSteps) else CallSteps(calls=(made,))
        offers = tuple(one if isinstance(one, Alternatives) else Alternatives((one,)) for one in steps.calls)
        return CallSteps(calls=offers, then=steps.then)


def fixture_names() -> list[str]:
    return sorted(module.name.replace("_", "-") for module in iter_modules(fixtures.__path__))


def load_fixture(agent: str) -> AgentFixture:
    """Raises UsageError."""
    if agent not in fixture_names():
        raise UsageError(
            f"there is no bench for {agent!r}", hint=f"expected one of: {', '.join(fixture_names())}"
        )
    bench: AgentFixture = import_module(f"{fixtures.__name__}.{agent.replace('-', '_')}").FIXTURE
    return bench


def set_up(bench: AgentFixture, place: LabContext) -> LaunchConfig:
    """Write the settings; the rig's environment is then complete."""
    rig = bench.rig(place)
    env = _environment(place)
    for folder in (place.home, *(env[name] for name in _FOLDERS)):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    for name, content in rig.files.items():
        path = os.path.join(place.home, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    return msgspec.structs.replace(rig, env=env | dict(rig.env))


_FOLDERS = {
    "HOME": "",
    "TMPDIR": "tmp",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
    "XDG_STATE_HOME": ".local/state",
}
_FIXED = {
    "DO_NOT_TRACK": "1",
    "LC_ALL": "C.UTF-8",
    "NO_COLOR": "1",
    # A proxy of the user's must not stand between an agent and the loopback.
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
    "SHELL": "/bin/sh",
    "TERM": "dumb",
    "TZ": "UTC",
}


def _environment(place: LabContext) -> dict[str, str]:
    folders = {name: os.path.join(place.home, folder).rstrip("/") for name, folder in _FOLDERS.items()}
    # Some agents believe this variable more than the directory that they are in.
    return folders | _FIXED | {"PWD": place.cwd}


def to_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def to_line(value: Any) -> str:
    """JSON for an argument."""
    return msgspec.json.encode(value).decode()
