"""What a client can choose in a session: mode, permissions, model, effort and agent; and the slash commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from harness.agents.registry import load
from harness.clients.acp.wire import INVALID_PARAMETERS, RpcError
from harness.clients.commands import Command, Configuration, Configure, Rename
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.presets import BUILD, MODES
from harness.clients.installed_agents import everything, permission_modes
from harness.clients.workspaces.prompt_commands import agent_commands
from harness.config import Settings, model_names
from harness.contracts.request import OWN_AGENT

_PERMISSIONS = {
    "default": "Ask",
    "acceptEdits": "Accept edits",
    "readOnly": "Read only",
    "fullAuto": "Full access",
}
_EFFORTS = {"": "As usual", "low": "Low", "medium": "Medium", "high": "High", "max": "Max"}
_UNSET = "default"
"""The value of "as usual" on the wire, where an empty one may be taken for none."""


class EditorCommand(NamedTuple):
    description: str
    hint: str
    field: str
    """Of the configuration that it changes; `title` renames."""


_ARGUMENTS = "what it is given, if it takes anything"
_COMPACT = "compact"
"""Not a prompt for the built-in agent."""
COMMANDS: Mapping[str, EditorCommand] = {
    "agent": EditorCommand("Continue with another agent", "name of an agent", "agent"),
    "model": EditorCommand("Continue with another model", "name of a model", "model"),
    "title": EditorCommand("Give this session a title", "the title", "title"),
}


def available_commands(version: int, setup: Setup) -> list[dict[str, Any]]:
    """Those of a session, and what its agent takes as one. Reads the folders where such commands are."""
    agent = load(setup.agent)
    of_agent = {
        command.name: EditorCommand(command.description or command.name, _ARGUMENTS, "")
        for command in agent_commands(agent, setup.cwd)
        if command.kind == "command" and not (agent.name == OWN_AGENT and command.name == _COMPACT)
    }
    kind = {"type": "command"} if version == 2 else {}
    return [
        {**kind, "name": name, "description": command.description, "input": {"hint": command.hint}}
        if version == 1
        else {**kind, "name": name, "description": command.description}
        for name, command in {**of_agent, **COMMANDS}.items()
    ]


def slash_command(text: str) -> Command | None:
    """What a prompt of that text does instead; None if it is for the agent."""
    if not text.startswith("/"):
        return None
    name, _, argument = text[1:].partition(" ")
    command, argument = COMMANDS.get(name), argument.strip()
    if command is None:
        return None
    if not argument:
        raise RpcError(INVALID_PARAMETERS, f"/{name} needs the {command.hint}")
    return change(command.field, argument)


def change(option: str, value: str) -> Command:
    """Raises RpcError for an option that does not exist; the conversation checks the value."""
    value = "" if value == _UNSET and option != "permissions" else value
    if option == "title":
        return Rename(title=value)
    names = {"mode": "mode", "permissions": "permission_mode", "model": "model", "agent": "agent"}
    name = {**names, "thought_level": "effort"}.get(option)
    if name is None:
        raise RpcError(INVALID_PARAMETERS, f"there is no option {option[:60]!r}")
    allowed = {"permissions": _PERMISSIONS, "thought_level": _EFFORTS}.get(option)
    if allowed is not None and value not in allowed:
        raise RpcError(INVALID_PARAMETERS, f"{option} cannot be {value[:60]!r}")
    configuration: dict[str, Any] = {name: value}
    return Configure(config=Configuration(**configuration))


class OptionList:
    """The options of sessions. `settings`: the names of models are there."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._agents: list[tuple[str, str]] | None = None

    def modes(self, setup: Setup) -> dict[str, Any]:
        return {"currentModeId": setup.mode or MODES[0]["id"], "availableModes": self._modes(setup)}

    def _modes(self, setup: Setup) -> list[dict[str, str]]:
        """Planning needs an agent whose installed version can be held to reading."""
        cannot_plan = permission_modes(load(setup.agent))["readOnly"]
        return [mode for mode in MODES if mode["id"] in (setup.mode, BUILD) or not cannot_plan]

    def options(self, setup: Setup, version: int) -> list[dict[str, Any]]:
        modes = [(mode["id"], mode["name"]) for mode in self._modes(setup)]
        refusals, permissions = permission_modes(load(setup.agent)), setup.permission_mode or "default"
        held = [(id, name) for id, name in _PERMISSIONS.items() if id == permissions or not refusals[id]]
        found = [
            ("mode", "Mode", "mode", setup.mode or modes[0][0], modes),
            ("permissions", "Permissions", "_permissions", permissions, held),
            ("model", "Model", "model", setup.model or _UNSET, self._models(setup)),
            ("agent", "Agent", "_agent", setup.agent, self._known_agents(setup.agent)),
        ]
        if "effort" in load(setup.agent).supports or setup.agent == OWN_AGENT:
            efforts = [(value or _UNSET, name) for value, name in _EFFORTS.items()]
            found.append(("thought_level", "Effort", "thought_level", setup.effort or _UNSET, efforts))
        return [_select(version, *option) for option in found]

    def _models(self, setup: Setup) -> list[tuple[str, str]]:
        spellings = (setup.agent,)
        known = [
            (model.name, model.description or model.name)
            for model in model_names.load(self._settings).all
            if model.id_for(spellings)
        ]
        usual = [(_UNSET, "As usual")]
        current = [(setup.model, setup.model)] if setup.model else []
        return list(dict([*usual, *known, *current]).items())

    def _known_agents(self, current: str) -> list[tuple[str, str]]:
        if self._agents is None:  # looking for programs takes a moment
            self._agents = [
                (installed.agent.name, installed.agent.title)
                for installed in everything()
                if installed.is_available
            ]
        return list(
            dict([*self._agents, (OWN_AGENT, load(OWN_AGENT).title), (current, load(current).title)]).items()
        )


def _select(
    version: int, option: str, name: str, category: str, value: str, choices: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    return {
        "id" if version == 1 else "configId": option,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": value,
        "options": [{"value": value, "name": title} for value, title in choices],
    }
