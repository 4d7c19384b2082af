"""A shopping cart, with one mistake in it."""

from __future__ import annotations


class Cart:
    def __init__(self) -> None:
        self.items: list[tuple[str, float, int]] = []

    def add(self, name: str, price: float, count: int = 1) -> None:
        self.items.append((name, price, count))

    def total(self, discount: float = 0.0) -> float:
        """The sum of all items, less the discount (0.1 is ten per cent)."""
        total = sum(price for _, price, _count in self.items)
        return round(total * (1 - discount), 2)
