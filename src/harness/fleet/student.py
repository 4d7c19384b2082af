"""Student's t distribution: the chance of a value, and the value of a chance. Pure; exact to about twelve digits."""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log

_MOST_TERMS = 500
_EXACT = 1e-14
_TINY = 1e-300
_HALVINGS = 100


def two_sided(t: float, df: float) -> float:
    """The chance of a value at least as far from 0 as `t`, with `df` degrees of freedom."""
    return _incomplete_beta(df / 2, 0.5, df / (df + t * t))


@lru_cache(maxsize=4096)
def quantile(chance: float, df: float) -> float:
    """The value that is exceeded, in both directions together, with this chance: about 1.96 for 0.05 and many `df`."""
    low, high = 0.0, 1.0
    while two_sided(high, df) > chance:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if two_sided(middle, df) > chance:
            low = middle
        else:
            high = middle
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularized; by its continued fraction, on the side where that converges fast."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or _TINY)
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / ((1 + term * d) or _TINY)
            c = (1 + term / c) or _TINY
            value *= c * d
        if abs(c * d - 1) < _EXACT:
            break
    return value
