"""The names under which a server is reached, and the origins that its page may have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from harness.errors import UsageError

OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_NAME = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?)(?::(\d{1,5}))?")
_PATH = re.compile(r"(?:/[A-Za-z0-9_-]+)*")
_USUAL_PORTS = (80, 443)


class HostNames(msgspec.Struct, frozen=True, kw_only=True):
    hosts: frozenset[str]
    """Every `Host` that is ours, in lower case."""
    origins: frozenset[str]
    """Every `Origin` that a page of ours may have."""
    url: str
    """The address of the page, for links."""
    local_url: str
    """The address for programs of this machine."""
    path: str = ""
    """What the address of the page has before every path, such as `/harness`. A proxy may take it off or leave it."""

    def own_path(self, path: str) -> str:
        """The path of a request as the routes know it."""
        return path[len(self.path) :] if self.path and path.startswith(f"{self.path}/") else path


def names_of(port: int, remote: Iterable[str] = (), public_url: str = "") -> HostNames:
    """`port`: where the server listens. `remote`: NAME or NAME:PORT, more names under which it is reached, such as
    those of a forwarded port or of a proxy with TLS. `public_url`: where people open it. Raises UsageError.
    """
    hosts = {f"{name}:{port}" for name in OWN_NAMES}
    origins = {f"http://{host}" for host in hosts}
    for name, own_port in map(_parsed, remote):
        ports = (own_port, port) if own_port else (port, *_USUAL_PORTS)
        host_names = [name] * (not own_port or own_port in _USUAL_PORTS) + [
            f"{name}:{port}" for port in ports
        ]
        hosts.update(host_names)
        origins.update(f"{scheme}://{host}" for host in host_names for scheme in ("http", "https"))
    local = f"http://{OWN_NAMES[0]}:{port}"
    if public_url:
        origin, host, also, path = _public(public_url)
        hosts.update((host, also))
        origins.add(origin)
        return HostNames(
            hosts=frozenset(hosts),
            origins=frozenset(origins),
            url=origin + path,
            local_url=local,
            path=path,
        )
    return HostNames(hosts=frozenset(hosts), origins=frozenset(origins), url=local, local_url=local)


def _parsed(text: str) -> tuple[str, int]:
    """The name, and the port or 0."""
    match = _NAME.fullmatch(text)
    port = int(match[2] or 0) if match else 0
    if match is None or port > 65535:
        raise UsageError(
            f"not a host name: {text!r}", hint="write NAME or NAME:PORT, without http:// and without a path"
        )
    return match[1].lower(), port


def _public(url: str) -> tuple[str, str, str, str]:
    """The origin, the host as browsers write it, the same with its port, and the path without a slash at its end."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    usual = {"http": 80, "https": 443}.get(parts.scheme, 0)
    name = (parts.netloc.rpartition("@")[2] or "").lower()
    if not usual or not _NAME.fullmatch(name) or "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"not the address of a page: {url!r}", hint="write https://harness.example.com")
    path = parts.path.rstrip("/")
    if not _PATH.fullmatch(path):
        raise UsageError(
            f"not a path for the page: {url!r}",
            hint="use letters, digits, `-` and `_`: https://example.com/harness",
        )
    bare = name.rpartition(":")[0] if port is not None else name
    host = bare if port in (None, usual) else name
    return f"{parts.scheme}://{host}", host, f"{bare}:{port or usual}", path
