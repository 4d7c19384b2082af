"""Checks the cart: `python3 check_cart.py`."""

from __future__ import annotations

import sys

from cart import Cart

cart = Cart()
cart.add("apple", 0.5, count=4)
if cart.total() != 2.0:
    sys.exit(f"FAILED: four apples at 0.50 should cost 2.0, not {cart.total()}")
print("ok: four apples cost 2.0")
