"""What models cost, in dollars per million tokens: an estimate, for agents that do not state their cost.

Layers, the first that has an entry under a name wins: the `[prices."MODEL"]` tables of the settings, a
file (named by the caller, else the user's prices.toml), the built-in prices.toml. An entry replaces a
whole entry.

A model is looked for under its name, then without its provider (`openrouter/anthropic/…`, `us.anthropic.…`), its
window (`[1m]`), its version at a reseller (`-v1:0`) and its date (`-20250929`). One that is not found has no price, which
is not the same as the price 0.

What changes a price besides the class of the tokens is the `Rate` of a model call: how fast it was, and how long its
prompt. A price for long prompts holds for all tokens of the call, as the providers have it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from harness.config.file_stamps import FileStamp, stamp_of
from harness.config.files import Settings, config_directory, read_toml
from harness.config.setting_kinds import PROMPT_SIZES
from harness.config.settings import PRICE_FIELDS
from harness.errors import BadConfig
from harness.events.usage import CLASSES, Usage, UsageDelta

BUILT_IN = os.path.join(os.path.dirname(__file__), "prices.toml")
USER_FILE = "prices.toml"
_PER = 1_000_000
_WINDOW = re.compile(r"\[[0-9]+[km]\]$")
_VERSION = re.compile(r"-v\d+(?::\d+)?$")
_DATE = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d)$")
_VENDOR = re.compile(
    r"^(?:[a-z]{2,6}(?:-[a-z]+)?\.)?(?:anthropic|openai|meta|mistral|amazon|google|deepseek|qwen|moonshot)\."
)
_SIZES = tuple(sorted(PROMPT_SIZES, reverse=True))
_PRICED_AS = {"reasoning": "output"}


class Rate(NamedTuple):
    """What a model call has been, apart from its tokens, that its price depends on."""

    speed: str = ""
    """Other than the usual one: `fast`."""
    over: int = 0
    """Its prompt was longer than this; see `prompt_size`."""


USUAL = Rate()


def rate_of(delta: UsageDelta) -> Rate:
    """Of what was used at once. Where it has no id it may be several calls, whose prompts are not long together."""
    return Rate(delta.speed, prompt_size(delta.usage) if delta.id else 0)


def states_run(usage: Usage, call_id: str) -> bool:
    """Whether its cost is that of the whole run, sub-agents included; with an id it is that of this model call."""
    is_stated = usage.cost_usd is not None and usage.cost_source != "computed"
    return is_stated and not call_id and bool(usage.cost_usd or usage.all_tokens)


def prompt_size(usage: Usage) -> int:
    """The greatest length that may have a price of its own, and that the prompt of one model call exceeds; 0: none."""
    prompt = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
    return next((size for size in _SIZES if prompt > size), 0)


class Price(NamedTuple):
    """Dollars per million tokens; None where there is no price."""

    input: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    output: float | None = None
    cache_write_1h: float | None = None
    """For an hour; as `cache_write` where none is given."""
    fast: float | None = None
    """By how much everything costs more in the fast mode."""
    long_from: float | None = None
    """The length of a prompt beyond which all tokens of the call cost more: the input classes by `long_input`, the
    output by `long_output`."""
    long_input: float = 1.0
    long_output: float = 1.0

    def each_usd(self, name: str, rate: Rate) -> float | None:
        """One million tokens of this class."""
        usd: float | None = getattr(self, _PRICED_AS.get(name, name))
        if usd is None and name == "cache_write_1h":
            usd = self.cache_write
        if usd is None or (rate.speed == _FAST and self.fast is None):
            return None
        if rate.speed == _FAST:
            usd *= self.fast or 1.0
        if self.long_from is not None and rate.over >= self.long_from:
            usd *= self.long_output if _PRICED_AS.get(name, name) == "output" else self.long_input
        return usd


_FAST = "fast"


_FREE_PROVIDERS = ("scripted/", "local/")
"""Models on the machine itself, which cost nothing."""
_FREE = Price(0.0, 0.0, 0.0, 0.0)


class Prices(NamedTuple):
    date: str
    """When the built-in prices held."""
    by_model: Mapping[str, Price]

    def find(self, model: str) -> Price | None:
        unset = _FREE if model.startswith(_FREE_PROVIDERS) else None
        return next((self.by_model[name] for name in _spellings(model) if name in self.by_model), unset)

    def cost_usd(self, model: str, usage: Usage, rate: Rate = USUAL) -> float | None:
        """None when nothing is known of the tokens, or of the price of any that were used."""
        counts = {name: count for name in CLASSES if (count := getattr(usage, name)) is not None}
        if not counts:
            return None
        price = self.find(model)
        if price is None:
            return None if any(counts.values()) else 0.0
        if lasting := min(usage.cache_write_1h or 0, counts.get("cache_write", 0)):
            counts["cache_write"] -= lasting
            counts["cache_write_1h"] = lasting
        total_usd = 0.0
        for name, count in counts.items():
            each_usd = price.each_usd(name, rate)
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
    date, by_model = read(BUILT_IN)  # the same table as long as the file is the same: thousands of entries
    path = path or (user_path() if os.path.isfile(user_path()) else "")
    own = read(path)[1] if path else {}
    set_here = {model.lower(): Price(**fields) for model, fields in settings.tables("prices").items()}
    return Prices(date, {**by_model, **own, **set_here} if own or set_here else by_model)


def read(path: str) -> tuple[str, Mapping[str, Price]]:
    """The date and the prices of one file. Raises BadConfig, naming the place."""
    stamp = stamp_of(path)
    return _parsed(path) if stamp is None else _parsed_once(path, stamp)


@lru_cache(maxsize=4)
def _parsed_once(path: str, stamp: FileStamp) -> tuple[str, Mapping[str, Price]]:
    del stamp
    return _parsed(path)


def _parsed(path: str) -> tuple[str, Mapping[str, Price]]:
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
    for name, value in fields.items():
        kind = PRICE_FIELDS.get(name)
        if kind is None:
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
    plain = names
    for addition in (_WINDOW, _VERSION, _DATE, _VERSION, _VENDOR):
        plain = [addition.sub("", name) for name in plain]
        names = [*names, *plain]
    dashed = [name.replace(".", "-") for name in plain]  # claude-sonnet-4.5, as resellers write it
    return tuple(dict.fromkeys((*names, *dashed)))
