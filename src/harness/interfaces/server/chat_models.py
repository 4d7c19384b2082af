"""The models of `/models` and `/chat`: whatever the one offers, the other takes."""

from __future__ import annotations

from harness.config import Settings, model_names
from harness.interfaces.cli import inventory
from harness.interfaces.server.backend import Setup
from harness.sources.models.local import USUAL
from harness.sources.models.registry import DEMO, LOCAL, PROVIDERS, SCRIPTED, any_model, usable
from harness.sources.registry import load
from harness.sources.request import OWN_AGENT


class ChatModels:
    """`default`: how the server runs conversations of which nothing else is said."""

    def __init__(self, settings: Settings, default: Setup) -> None:
        self._settings = settings
        self._default = default

    @property
    def default(self) -> str:
        chosen = self._default.model if self._default.agent == OWN_AGENT else ""
        chosen = chosen or self._settings.model_for(_spellings())
        return self.resolved(chosen) if chosen else any_model()

    def offered(self) -> list[str]:
        """Full names, the default first: one of each provider that can be asked here."""
        usual = [name for row in usable() if row.is_usable and (name := usual_of(row.provider))]
        return list(dict.fromkeys([self.default, *usual]))

    def resolved(self, name: str) -> str:
        """The full name of a model that the settings call by a short one, or of which only the provider is named."""
        found = model_names.load(self._settings).resolve(name, _spellings()).id
        return found if "/" in found else usual_of(found) or found


def usual_of(provider: str) -> str:
    """What is asked of a provider when nobody names a model; empty where there is nothing usual."""
    usual = {name: one.usual_model for name, one in PROVIDERS.items()} | {LOCAL: USUAL}
    if provider == SCRIPTED:
        return DEMO
    return f"{provider}/{usual[provider]}" if usual.get(provider) else ""


def _spellings() -> tuple[str, ...]:
    return inventory.names_of(load(OWN_AGENT))
