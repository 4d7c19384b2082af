"""Which models the built-in agent asks besides its own, by the settings: others in its place, and cheaper ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from harness import config
from harness.config import model_names
from harness.contracts.request import OWN_AGENT

_NAMES = (OWN_AGENT, "opencode")
"""OpenCode names models as we do, `provider/model`."""


class OwnModels(NamedTuple):
    fallbacks: tuple[str, ...] = ()
    small: str = ""
    subagents: str = ""


NO_MODELS = OwnModels()


def own_models(cwd: str, environ: Mapping[str, str] | None = None) -> OwnModels:
    """Their names, aliases resolved."""
    settings = config.load(cwd or os.getcwd(), environ)
    keys = ("native.fallback_models", "native.small_model", "native.subagent_model")
    fallbacks, small, subagents = (settings.value(key) for key in keys)
    if not (fallbacks or small or subagents):
        return NO_MODELS
    aliases = model_names.load(settings)

    def named(name: str) -> str:
        return aliases.resolve(name, _NAMES).id if name else ""

    return OwnModels(tuple(map(named, fallbacks or ())), named(small or ""), named(subagents or ""))


def resolved(name: str, cwd: str) -> str:
    """What a name, such as one that another agent's file gives, means here."""
    return model_names.load(config.load(cwd or os.getcwd())).resolve(name, _NAMES).id if name else ""
