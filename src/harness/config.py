"""Where things are, and what the user has set: harness.toml, environment, XDG folders.

Precedence: flag, then environment, then the project's harness.toml, then the user's, then the default.
"""

from __future__ import annotations

import os


def data_directory() -> str:
    """`$XDG_DATA_HOME/harness`: sessions."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def config_directory() -> str:
    """`$XDG_CONFIG_HOME/harness`: the user's config.toml."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def cache_directory() -> str:
    """`$XDG_CACHE_HOME/harness`: what can be found out again."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def sessions_directory() -> str:
    return os.path.join(data_directory(), "sessions")


def _xdg(variable: str, default: str) -> str:
    base = os.environ.get(variable, "")
    if not os.path.isabs(base):  # the XDG rules: relative paths are to be ignored
        base = os.path.join(os.path.expanduser("~"), default)
    return os.path.join(base, "harness")
