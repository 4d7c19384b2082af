"""Which servers there are: standard `mcp.json` files.

    {"mcpServers": {"files": {"command": "npx", "args": ["some-server"], "env": {"KEY": "${KEY}"}},
                    "search": {"type": "http", "url": "https://…", "headers": {"Authorization": "…"}}}}

`${NAME}` and `${NAME:-otherwise}` are replaced by variables of the environment. Only files that the user named,
and the user's own `mcp.json`, are read: a project must not start programs by being looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from harness.config import config_directory
from harness.formats.json_lines import DECODE_ERRORS

FILE_NAME = "mcp.json"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_KINDS = {
    "": "",
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}


class ServerEntry(msgspec.Struct, kw_only=True):
    """One entry of the file; unknown keys are ignored."""

    type: str = ""
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False
    startup_timeout_s: float = msgspec.field(name="startupTimeoutSeconds", default=10.0)
    """The run waits no longer for it to answer; its tools are offered when it does."""


def user_file() -> str:
    return os.path.join(config_directory(), FILE_NAME)


def load_servers(
    paths: Iterable[str],
    environ: Mapping[str, str],
    on_warning: Callable[[str], object],
    *,
    with_users_own: bool = True,
) -> dict[str, ServerEntry]:
    """The servers of these files, and of the user's own; invalid entries are reported and left out.

    Of several with one name, the first counts.
    """
    servers: dict[str, ServerEntry] = {}
    own = [user_file()] if with_users_own and os.path.isfile(user_file()) else []
    for path in (*paths, *own):
        for name, entry in _entries(path, on_warning).items():
            try:
                server = server_of(entry, environ)
            except ValueError as error:
                on_warning(f"{path}: server {name} is left out: {error}")
                continue
            if not server.disabled:
                servers.setdefault(name, server)
    return servers


def server_of(entry: Any, environ: Mapping[str, str]) -> ServerEntry:
    """One entry, with variables filled in. Raises ValueError."""
    return _resolved(msgspec.convert(entry, ServerEntry), environ)


def _entries(path: str, on_warning: Callable[[str], object]) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            content = msgspec.json.decode(file.read())
    except OSError as error:
        on_warning(f"{path} cannot be read: {error.strerror}")
        return {}
    except DECODE_ERRORS as error:
        on_warning(f"{path} is left out, it is not valid JSON: {error}")
        return {}
    entries = content.get("mcpServers", content.get("servers")) if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        on_warning(f"{path} is left out: it has no object called mcpServers")
        return {}
    return entries


def _resolved(server: ServerEntry, environ: Mapping[str, str]) -> ServerEntry:
    """With variables filled in. Raises ValueError."""

    def filled(text: str) -> str:
        return _VARIABLE.sub(value, text)

    def value(match: re.Match[str]) -> str:
        text = environ.get(match[1], match[2])
        if text is None:
            raise ValueError(f"the environment has no {match[1]}")
        return text

    kind = _KINDS.get(server.type)
    if kind is None:
        raise ValueError(f"servers of type {server.type} are not known")
    kind = kind or ("stdio" if server.command else "http")
    if not (server.command if kind == "stdio" else server.url):
        raise ValueError(f"it has no {'command' if kind == 'stdio' else 'url'}")
    return ServerEntry(
        type=kind,
        command=filled(server.command),
        args=list(map(filled, server.args)),
        env={name: filled(text) for name, text in server.env.items()},
        cwd=filled(server.cwd),
        url=filled(server.url),
        headers={name: filled(text) for name, text in server.headers.items()},
        disabled=server.disabled,
        startup_timeout_s=server.startup_timeout_s,
    )
