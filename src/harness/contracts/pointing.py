"""How an agent program is pointed at a gateway, beside the user's own settings: by environment and flags alone.

The `gateway` of an agent's folder defines one `POINTING`, a table. Texts in it hold fields in braces: `{url}` and `{key}`
of the gateway, `{model}`, and `{folder}`, a folder of the run in which its `files` are written. A home of its own, without
any settings of the user's, is the fixture of the agent's `lab`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class LoginPointing(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is pointed at a gateway that passes its own log-in on: `{url}` holds the token of the run, since the place of
    the key is taken.
    """

    host: str
    """Of its vendor: a log-in is sent nowhere else."""
    env: Mapping[str, str] = {}
    args: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    """Variables that hold the log-in."""


class Pointing(msgspec.Struct, frozen=True, kw_only=True):
    """Contract: nothing here does I/O."""

    wire: str
    """The model API that it speaks."""
    provider: str
    """Whose, by itself: a row of `PROVIDERS`."""
    env: Mapping[str, str] = {}
    args: tuple[str, ...] = ()
    files: Mapping[str, Any] = {}
    """Path below `{folder}` → a text, or what becomes JSON."""
    model: str = "{model}"
    """What the program is given as its model."""
    needs_model: bool = False
    """A model has to be named: with other settings it has no default."""
    not_beside: str = ""
    """Why the user's own settings cannot stay: it then has a home of its own."""
    result_noise: tuple[str, ...] = ()
    """Regular expressions for what it puts into results itself, and what differs each time."""
    reminders: tuple[str, ...] = ()
    """Names of elements that it puts into what the user said."""
    sealed_args: tuple[str, ...] = ()
    """In a sealed run: it cannot build a wall of its own within ours."""
    login: LoginPointing | None = None
    """None: its log-in cannot be passed on."""
    unset: tuple[str, ...] = ()
    """Variables besides those of keys by which it would talk to something else."""
