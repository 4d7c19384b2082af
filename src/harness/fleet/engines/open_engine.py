"""The engine of a name."""

from __future__ import annotations

from harness.fleet.engines.engine import Engine, EngineName
from harness.fleet.fleet import Fleet


def open_engine(name: EngineName, fleet: Fleet, address: str = "") -> Engine:
    """`address`: of a cluster. Raises UsageError, MissingExtra where the engine is not there."""
    if name == "ray":
        from harness.fleet.engines.ray_engine import RayEngine

        return RayEngine(fleet, address)
    from harness.fleet.engines.local import LocalEngine

    return LocalEngine(fleet)
