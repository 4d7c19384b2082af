"""What models cost, in dollars per million tokens: an estimate, for agents that do not state their cost.

Layers, the first that has an entry under a name wins: the `[prices."MODEL"]` tables of the settings, a
file (named by the caller, else the user's prices.toml), the built-in prices.toml. An entry replaces a
whole entry.

A model is looked for under its name, then without its provider (`openrouter/anthropic/…`), then without
its date (`-20250929`). One that is not found has no price, which is not the same as the price 0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from harness.config.files import Settings, config_directory, read_toml
from harness.config.settings import KINDS
from harness.errors import BadConfig
from harness.events.usage import CLASSES, Usage

BUILT_IN = os.path.join(os.path.dirname(__file__), "prices.toml")
USER_FILE = "prices.toml"
_PER = 1_000_000
_DATE = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d)$")
_PRICED_AS = {"reasoning": "output"}


class Price(NamedTuple):
    """Dollars per million tokens; None where there is no price."""

    input: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    output: float | None = None


_FREE_PROVIDERS = ("scripted/", "local/")
"""Models on the machine itself, which cost nothing."""
_FREE = Price(0.0, 0.0, 0.0, 0.0)


class Prices(NamedTuple):
    date: str
    """When the built-in prices held."""
    by_model: dict[str, Price]

    def find(self, model: str) -> Price | None:
        unset = _FREE if model.startswith(_FREE_PROVIDERS) else None
        return next((self.by_model[name] for name in _spellings(model) if name in self.by_model), unset)

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """None when nothing is known of the tokens, or of the price of any that were used."""
        counts = {name: count for name in CLASSES if (count := getattr(usage, name)) is not None}
        if not counts:
            return None
        price = self.find(model) or Price()
        total_usd = 0.0
        for name, count in counts.items():
            each_usd = getattr(price, _PRICED_AS.get(name, name))
            if each_usd is None and count:
                return None
            total_usd += count * (each_usd or 0.0) / _PER
        return round(total_usd, 10)


def user_path() -> str:
    """Prices of the user's own, over the built-in ones."""
    return os.path.join(config_directory(), USER_FILE)


def load(settings: Settings, path: str = "") -> Prices:
    """All layers. Raises BadConfig, naming the place."""
    for problem in settings.problems:
        if problem.is_error and problem.key.partition(".")[0] == "prices":
            raise BadConfig(str(problem), hint="`harness config show` lists all settings")
    date, by_model = read(BUILT_IN)
    path = path or (user_path() if os.path.isfile(user_path()) else "")
    own = read(path)[1] if path else {}
    set_here = {model.lower(): Price(**fields) for model, fields in settings.tables("prices").items()}
    return Prices(date, {**by_model, **own, **set_here})


def read(path: str) -> tuple[str, dict[str, Price]]:
    """The date and the prices of one file. Raises BadConfig, naming the place."""
    tables = read_toml(path)
    prices = tables.get("prices", {})
    if not isinstance(prices, dict):
        raise BadConfig(f"{path}: prices: a table was expected", hint='write [prices."MODEL"] tables')
    by_model = {model.lower(): _price(path, model, fields) for model, fields in prices.items()}
    return str(tables.get("date", "")), by_model


def _price(path: str, model: str, fields: Any) -> Price:
    place = f"{path}: prices.{model}"
    if not isinstance(fields, Mapping):
        raise BadConfig(f"{place}: a table was expected, not {type(fields).__name__}")
    kind = KINDS["price"]
    for name, value in fields.items():
        if name not in Price._fields:
            raise BadConfig(f"{place}: unknown class of tokens: {name}", hint=f"expected: {_EXPECTED}")
        if not kind.accepts(value):
            raise BadConfig(f"{place}.{name}: {kind.expected} was expected, not {value!r}")
    return Price(**fields)


_EXPECTED = ", ".join(Price._fields)


@lru_cache(maxsize=64)
def _spellings(model: str) -> tuple[str, ...]:
    """Under which names a model may be listed, the surest first."""
    model = model.lower()
    parts = model.split("/")
    names = ["/".join(parts[start:]) for start in range(len(parts))]
    undated = [_DATE.sub("", name) for name in names]
    dashed = [name.replace(".", "-") for name in undated]  # claude-sonnet-4.5, as resellers write it
    return (*names, *undated, *dashed)
