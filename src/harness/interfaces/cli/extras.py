"""What must be installed besides, and how."""

from __future__ import annotations

from importlib.util import find_spec

from harness.errors import MissingExtra


def require_server() -> None:
    """Raises MissingExtra."""
    missing = [name for name in ("starlette", "uvicorn", "websockets") if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"the server needs {', '.join(missing)}", "server")
