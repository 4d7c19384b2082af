"""Hosts that a sealed run may reach besides its model: CONNECT to these names, on port 443, and nowhere else."""

from __future__ import annotations

import ipaddress
import re
import select
import socket
from collections.abc import Callable, Sequence

from harness.errors import UsageError

_PORT = 443
_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?:\.(?!-)[A-Za-z0-9-]{1,63})*\.?")
_CONNECT_S = 15.0
_SILENCE_S = 300.0
_MOST_ADDRESSES = 4
_RECEIVE_BYTES = 64 * 1024


def require_host_names(hosts: Sequence[str]) -> None:
    """Raises UsageError for what is no plain name of a host: a pattern or an address would open more than one thinks."""
    for host in hosts:
        if not _NAME.fullmatch(host) or host.replace(".", "").isdigit():
            raise UsageError(
                f"this is not the name of a host: {host!r}",
                hint="name one as in --allow-host packages.example.org",
            )


class Tunnels:
    """Contract: called by the gateway's threads. Names are resolved here, once for each connection, which then goes to that
    address: what a name points to later does not count. Addresses of this machine and of private networks are refused,
    whatever a name says.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        resolve: Callable[[str], list[str]] | None = None,
        connect: Callable[[str], socket.socket] | None = None,
    ) -> None:
        """`resolve`: the addresses of a name. `connect`: to one of them."""
        self._hosts = frozenset(host.lower().rstrip(".") for host in hosts)
        self._resolve = resolve or _addresses_of
        self._connect = connect or _connected

    def __call__(self, target: str, client: socket.socket) -> bool:
        """Connect and pass bytes both ways until one side is done. False: it may not be reached, or cannot be."""
        host, _, port = target.rpartition(":")
        if host.lower().rstrip(".") not in self._hosts or port != str(_PORT):
            return False
        addresses = [address for address in self._resolve(host) if is_public(address)][:_MOST_ADDRESSES]
        far = next(filter(None, map(self._connection, addresses)), None)
        if far is None:
            return False
        with far:
            try:
                far.settimeout(_SILENCE_S)
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _pump(client, far)
            except OSError:
                pass
        return True

    def _connection(self, address: str) -> socket.socket | None:
        """None: not by this address; a name often has one of each kind, and the system may know only one kind."""
        try:
            return self._connect(address)
        except OSError:
            return None


def _connected(address: str) -> socket.socket:
    return socket.create_connection((address, _PORT), timeout=_CONNECT_S)


def _addresses_of(host: str) -> list[str]:
    try:
        addresses = socket.getaddrinfo(host, _PORT, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(address[4][0]) for address in addresses]


def is_public(address: str) -> bool:
    """Whether it is everybody's: not of this machine, of a private network, of many at once, nor a cover for one of these."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = (ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ()))
        if not all(inner_ip is None or is_public(str(inner_ip)) for inner_ip in inner):
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _pump(client: socket.socket, far: socket.socket) -> None:
    other = {client.fileno(): (client, far), far.fileno(): (far, client)}
    poll = select.poll()
    for descriptor in other:
        poll.register(descriptor, select.POLLIN)
    while ready := poll.poll(_SILENCE_S * 1000):
        for descriptor, _ in ready:
            source, target = other[descriptor]
            data = source.recv(_RECEIVE_BYTES)
            if not data:
                return
            target.sendall(data)
