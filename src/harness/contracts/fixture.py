"""Agent fixtures: how to run an agent offline, and which of its own tools carries out each intent of a script.

The `lab` of an agent's folder defines one `FIXTURE`. A fixture is a table: environment,
settings files, flags, and for each intent a `ToolTemplate`. Texts in it hold fields in braces: `{url}`, `{home}`
and `{mcp_servers}` in the configuration; in a template the fields of the intent (`{path}`, `{content}`) and what
`intent_values` adds to them. A text that is one field alone becomes the field's value, and a key whose value is
None is left out. Only where an agent needs more than a table is there a function.

A fixture only describes; `set_up` writes, and only below the home that it is given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from harness.contracts.agent import Version
from harness.contracts.own_tools import list_command, read_fields, search_command
from harness.contracts.script import (
    Alternatives,
    AskIntent,
    FetchIntent,
    Intent,
    ListIntent,
    ReadIntent,
    ScriptToolCall,
    SearchIntent,
    TodoIntent,
    intent_name,
)

KEY = "lab-key"
"""In place of a credential: the scripted model accepts any."""


class LabContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent runs, and what it talks to."""

    url: str
    """Of the scripted model, without a slash at its end."""
    home: str
    """A folder of its own that may be deleted afterwards."""
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
    """What makes an agent talk to the scripted model, and to nothing else."""

    env: Mapping[str, str]
    files: Mapping[str, str] = {}
    """Path below the home → content."""
    args: tuple[str, ...] = ()
    model: str = ""


class ForEach(msgspec.Struct, frozen=True):
    """A list with one value per item of a `todo`, or per option of an `ask`: `{number}`, `{text}`, `{status}`."""

    item: Any


def question_input(**more: Any) -> dict[str, Any]:
    """The input of the tool with which most agents ask a person: a list of questions with options."""
    options = ForEach({"label": "{text}", "description": "{text}"})
    return {"questions": [{"question": "{question}", "header": "Choice", "options": options, **more}]}


class ToolTemplate(msgspec.Struct, frozen=True):
    """A call of one of the agent's tools. A text as input is for tools that take free text."""

    tool: str
    input: Any
    namespace: str = ""
    """Of the Responses API."""
    since: Version = ()
    """The first version that has this form."""
    until: Version = ()
    """The first version that does not have it any more."""

    def is_in(self, context: LabContext) -> bool:
        return context.is_at_least(*self.since) and not (self.until and context.is_at_least(*self.until))

    def fill(self, values: Mapping[str, Any]) -> ScriptToolCall:
        tool, namespace = str(fill_template(self.tool, values)), str(fill_template(self.namespace, values))
        return ScriptToolCall(tool=tool, input=fill_template(self.input, values), namespace=namespace)


class CallSteps(msgspec.Struct, frozen=True, kw_only=True):
    """An intent that takes an agent more than one call."""

    calls: tuple[ScriptToolCall | Alternatives, ...]
    then: tuple[ScriptToolCall, ...] = ()
    """Made in a turn of their own, after the results of `calls`. `{{each expression}}` in their input is the
    match that belongs to this intent, when several in one turn each have one."""


RenderCall: TypeAlias = Callable[[Any, LabContext], ScriptToolCall | CallSteps]
CallTemplate: TypeAlias = ToolTemplate | tuple[ToolTemplate, ...] | RenderCall
"""Several templates: the newest first, of which the tools that the agent offers decide."""


class AgentFixture(msgspec.Struct, frozen=True, kw_only=True):
    """Contract: nothing here does I/O. Every intent is in `calls` or, with the reason, in `lacks`."""

    wire: str
    """A file of `wires/`."""
    model: str = ""
    env: Mapping[str, str] = {}
    files: Mapping[str, Any] = {}
    """Path below the home → a text, or what becomes JSON."""
    args: tuple[str, ...] = ()
    mcp_server: Any = None
    """One entry of `{mcp_servers}`, made of `{program}` and `{args}`, or of `{command}`."""
    mcp_files: Mapping[str, Any] = {}
    """Files that are written only when there are MCP servers."""
    mcp_args: tuple[str, ...] = ()
    """Flags that are given only when there are MCP servers; `{mcp_json}` is an object with all of them."""
    adjust: Callable[[LaunchConfig, LabContext], LaunchConfig] | None = None
    """For what the tables cannot say."""
    calls: Mapping[str, CallTemplate]
    lacks: Mapping[str, str] = {}
    own_calls: Mapping[str, ScriptToolCall] = {}
    """Calls of its own that have to be asked about (`hostile_calls.OWN_CALLS`)."""
    since: Mapping[str, Version] = {}
    """For intents in `calls` that older versions lack: the first version that has it."""
    agent_end: ToolTemplate | None = None
    """How a sub-agent must end, when a text of its own is not enough; its field is `{text}`."""
    skills_folder: str = ""
    """Where it looks for skills, below the working directory."""
    side_markers: tuple[str, ...] = ()
    """Texts that only its own side requests hold, though these offer tools."""

    def why_lacking(self, name: str, version: Version = ()) -> str:
        """Why an intent has no call in this version, by default in the newest; empty when it has one."""
        if name not in self.calls:
            return self.lacks.get(name, f"it has no tool to {name}")
        first = self.since.get(name, ())
        if version and version < first:
            return f"it has no {name} before version {'.'.join(map(str, first))}"
        return ""

    def launch(self, context: LabContext) -> LaunchConfig:
        values = {"url": context.url, "home": context.home, **self._mcp_values(context)}
        has_servers = bool(context.mcp_servers)
        files = {**self.files, **(self.mcp_files if has_servers else {})}
        args = self.args + (self.mcp_args if has_servers else ())
        config = LaunchConfig(
            env=fill_template(self.env, values),
            files={path: as_file(fill_template(content, values)) for path, content in files.items()},
            args=tuple(str(fill_template(word, values)) for word in args),
            model=self.model,
        )
        return self.adjust(config, context) if self.adjust else config

    def _mcp_values(self, context: LabContext) -> dict[str, Any]:
        servers = {
            name: fill_template(
                self.mcp_server, {"command": list(command), "program": command[0], "args": list(command[1:])}
            )
            for name, command in context.mcp_servers.items()
        }
        text = msgspec.json.encode({"mcpServers": servers}).decode()
        return {"mcp_servers": servers, "mcp_json": text}

    def render(self, intent: Intent, context: LabContext) -> CallSteps:
        """Raises KeyError for what it lacks."""
        template = self.calls[intent_name(intent)]
        if isinstance(template, ToolTemplate | tuple):
            values = intent_values(intent, context)
            templates = template if isinstance(template, tuple) else (template,)
            calls = tuple(template.fill(values) for template in templates if template.is_in(context))
            return CallSteps(calls=(Alternatives(calls),))
        steps_or_calls = template(intent, context)
        steps = (
            steps_or_calls if isinstance(steps_or_calls, CallSteps) else CallSteps(calls=(steps_or_calls,))
        )
        offers = tuple(
            step if isinstance(step, Alternatives) else Alternatives((step,)) for step in steps.calls
        )
        return CallSteps(calls=offers, then=steps.then)


def set_up(fixture: AgentFixture, context: LabContext) -> LaunchConfig:
    """Write the settings files. The environment of the result is complete."""
    config = fixture.launch(context)
    env = environment_of(context)
    for folder in (context.home, *(env[name] for name in _FOLDERS)):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    for name, content in config.files.items():
        path = os.path.join(context.home, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    return msgspec.structs.replace(config, env=env | dict(config.env))


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


def environment_of(context: LabContext) -> dict[str, str]:
    folders = {name: os.path.join(context.home, folder).rstrip("/") for name, folder in _FOLDERS.items()}
    # Some agents believe this variable more than the directory that they are in.
    return folders | _FIXED | {"PWD": context.cwd}


def as_file(content: Any) -> str:
    if isinstance(content, str):
        return content
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"


_FIELD = re.compile(r"\{(\w+)\}")


def fill_template(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with its fields replaced. Raises KeyError for a field that there is none of."""
    if isinstance(template, str):
        if match := _FIELD.fullmatch(template):
            return values[match[1]]
        return _FIELD.sub(lambda match: str(values[match[1]]), template)
    if isinstance(template, Mapping):
        fields = {key: fill_template(inner, values) for key, inner in template.items()}
        return {key: value for key, value in fields.items() if value is not None}
    if isinstance(template, list):
        return [fill_template(inner, values) for inner in template]
    if isinstance(template, ForEach):
        return [fill_template(template.item, item) for item in values["items"]]
    return template


def intent_values(intent: Intent, context: LabContext) -> dict[str, Any]:
    """The fields of an intent, and what agents ask for instead of them.

    `absolute`: the path · `command`: the same by a shell · of a read `first`, `last`, `count`, `skipped` and
    `range`: its lines, None where all are read.
    """
    values: dict[str, Any] = msgspec.structs.asdict(intent)
    if "path" in values:
        values["absolute"] = context.absolute(values["path"])
    match intent:
        case ReadIntent():
            values |= read_fields(intent.path, *(intent.lines or (None, None)))
        case SearchIntent():
            values["command"] = search_command(intent.query, intent.path)
        case ListIntent():
            values["command"] = list_command(intent.path)
        case AskIntent():
            values["items"] = [
                {"number": str(number), "text": option} for number, option in enumerate(intent.options, 1)
            ]
        case TodoIntent():
            values["items"] = [
                {"number": str(number), "text": item.text, "status": item.status}
                for number, item in enumerate(intent.entries, 1)
            ]
        case FetchIntent():
            values["url"] = context.page(intent.url)
    return values
