"""New ids for a session that is written: derived from a seed, so that the same input gives the same bytes."""

from __future__ import annotations

from hashlib import sha256
from uuid import UUID


class NewIds:
    """Each call gives another id. Letters, digits, `_` and `-` only, as every model API takes them."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def hex(self, length: int) -> str:
        self._count += 1
        return sha256(f"{self._seed} {self._count}".encode()).hexdigest()[:length]

    def uuid(self) -> str:
        return str(UUID(hex=self.hex(32), version=4))

    def uuid7(self, at_ms: int) -> str:
        """One that says when it was made."""
        rest = bytearray(bytes.fromhex(self.hex(20)))
        rest[0] = 0x70 | rest[0] & 0x0F
        rest[2] = 0x80 | rest[2] & 0x3F
        return str(UUID(bytes=at_ms.to_bytes(6, "big") + bytes(rest)))

    def named(self, prefix: str) -> str:
        """`toolu_`, `call_` …"""
        return f"{prefix}{self.hex(24)}"
