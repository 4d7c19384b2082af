"""Short names of models → what each agent calls them. Works offline: nothing is ever fetched.

Layers, the first that knows a name for the agent wins: the `[models.*]` tables of the settings, then
`~/.harness/models.toml` over the built-in `models.toml`. Within a layer an entry replaces a whole entry.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from harness.config.files import Settings, read_toml
from harness.errors import BadConfig

BUILT_IN = os.path.join(os.path.dirname(__file__), "models.toml")
_NOT_AGENTS = ("description", "provider")


class ModelAlias(NamedTuple):
    name: str
    description: str
    provider: str
    ids: dict[str, str]
    """Agent → its own name of the model."""
    origin: str
    """The file it comes from."""

    def id_for(self, agent_names: Iterable[str]) -> str:
        return next((self.ids[name] for name in agent_names if name in self.ids), "")


class Resolution(NamedTuple):
    id: str
    """What the agent is given."""
    kind: Literal["resolved", "no_mapping", "passed_through"]
    origin: str = ""


class ModelAliases(NamedTuple):
    own: dict[str, ModelAlias]
    """From the settings."""
    canonical: dict[str, ModelAlias]
    warnings: list[str]

    @property
    def all(self) -> list[ModelAlias]:
        return [model for _, model in sorted({**self.canonical, **self.own}.items())]

    def resolve(self, name: str, agent_names: Iterable[str]) -> Resolution:
        """`agent_names`: the agent's name and its aliases."""
        names = tuple(agent_names)
        targets = [layer[name] for layer in (self.own, self.canonical) if name in layer]
        for model in targets:
            if model_id := model.id_for(names):
                return Resolution(model_id, "resolved", model.origin)
        return Resolution(name, "no_mapping" if targets else "passed_through")


def cache_path() -> str:
    """Where `harness models update` puts its file."""
    return os.path.join(os.path.expanduser("~"), ".harness", "models.toml")


def load(settings: Settings) -> ModelAliases:
    """All layers. A broken file of the user gives a warning and is left out."""
    cached: dict[str, ModelAlias] = {}
    warnings: list[str] = []
    if os.path.isfile(cache_path()):
        try:
            cached = read(cache_path())
        except BadConfig as error:
            warnings.append(f"{error.message}; the file is ignored")
    own = {
        name: _model(name, fields, settings.origin(f"models.{name}.{next(iter(fields))}"))
        for name, fields in settings.tables("models").items()
    }
    return ModelAliases(own, {**read(BUILT_IN), **cached}, warnings)


def read(path: str) -> dict[str, ModelAlias]:
    """The models of one file. Raises BadConfig, naming the place."""
    models = read_toml(path).get("models", {})
    if not isinstance(models, dict):
        raise BadConfig(f"{path}: models: a table was expected", hint="write [models.NAME] tables")
    for name, fields in models.items():
        _check(path, name, fields)
    return {name: _model(name, fields, path) for name, fields in models.items()}


def _check(path: str, name: str, fields: Any) -> None:
    if not isinstance(fields, dict):
        raise BadConfig(f"{path}: models.{name}: a table was expected, not {type(fields).__name__}")
    for key, value in fields.items():
        if not isinstance(value, str):
            raise BadConfig(f"{path}: models.{name}.{key}: a string was expected, not {type(value).__name__}")


def _model(name: str, fields: Mapping[str, str], origin: str) -> ModelAlias:
    ids = {agent: model_id for agent, model_id in fields.items() if agent not in _NOT_AGENTS}
    return ModelAlias(name, fields.get("description", ""), fields.get("provider", ""), ids, origin)
