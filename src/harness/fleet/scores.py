"""What a check says besides its exit code: a number, or numbers by name."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

import msgspec

_SOLVED = 1.0
_REWARD = "reward"


class Verdict(NamedTuple):
    passed: bool
    score: dict[str, float]


def scores_of(data: bytes) -> dict[str, float] | None:
    """A number, or JSON of numbers by name; None where it is neither."""
    try:
        score = msgspec.json.decode(data.strip(), type=dict[str, float] | float)
    except msgspec.DecodeError:
        try:
            score = float(data.decode("ascii"))
        except ValueError:
            return None
    numbers = score if isinstance(score, dict) else {"score": score}
    return numbers if numbers and all(map(isfinite, numbers.values())) else None


def is_solved(score: Mapping[str, float]) -> bool:
    """A reward of 1 is a solution; of several numbers without a reward, all of them."""
    decisive = [score[_REWARD]] if _REWARD in score else list(score.values())
    return min(decisive) >= _SOLVED
