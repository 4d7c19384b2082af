"""What kind of value a setting has: which values are such, and how one is read from text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

LEAST_WINDOW = 4_000
"""Tokens: a model that can read less cannot even be told which tools there are."""
PROMPT_SIZES = (100_000, 128_000, 200_000, 256_000, 272_000, 512_000)
"""Tokens of a prompt beyond which some provider has another price: by these the model calls of a bill are told apart."""


class Kind(NamedTuple):
    expected: str
    """Completes the sentence "… expected"."""
    accepts: Callable[[Any], bool]
    parse: Callable[[str], Any]
    """From the text of an environment variable; may give something that `accepts` refuses."""


def _as_number(text: str) -> Any:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


KINDS = {
    "text": Kind("a string", _is_text, str),
    "texts": Kind(
        "a list of strings",
        lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
        str.split,
    ),
    "seconds": Kind(
        "a number of seconds above 0",
        lambda value: _is_number(value) and 0 < value < float("inf"),
        _as_number,
    ),
    "price": Kind(
        "a price of 0 or more dollars",
        lambda value: _is_number(value) and 0 <= value < float("inf"),
        _as_number,
    ),
    "prompt size": Kind(
        f"one of {', '.join(map(str, PROMPT_SIZES))} tokens",
        lambda value: _is_number(value) and value in PROMPT_SIZES,
        _as_number,
    ),
    "megabytes": Kind(
        "a whole number of megabytes above 0",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 20,
        _as_number,
    ),
    "dollars": Kind(
        "an amount of dollars above 0",
        lambda value: _is_number(value) and 0 < value < float("inf"),
        _as_number,
    ),
    "tokens": Kind(
        f"a whole number of tokens, {LEAST_WINDOW} or more",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= LEAST_WINDOW,
        _as_number,
    ),
    "count": Kind(
        "a whole number from 0 to 10",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10,
        _as_number,
    ),
    "rules": Kind(
        "a list of tables, each with an answer (docs/permissions.md)",
        lambda value: isinstance(value, list) and all(isinstance(rule, dict) for rule in value),
        lambda text: text,
    ),
    "flag": Kind(
        "true or false",
        lambda value: isinstance(value, bool),
        lambda text: {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text),
    ),
}
