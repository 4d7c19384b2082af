"""Hosts that a sealed run may reach besides its model: CONNECT to these names, on port 443, and nowhere else."""

from __future__ import annotations

import ipaddress
import select
import socket
from collections.abc import Sequence

_PORT = 443
_CONNECT_S = 15.0
_SILENCE_S = 300.0
_RECEIVE_BYTES = 64 * 1024


class Tunnels:
    """Contract: called by the gateway's threads. Names are resolved here; addresses of this machine and of private networks
    are refused, whatever a name says.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = frozenset(host.lower().rstrip(".") for host in hosts)

    def __call__(self, target: str, client: socket.socket) -> bool:
        """Connect and pass bytes both ways until one side is done. False: it may not be reached, or cannot be."""
        host, _, port = target.rpartition(":")
        if host.lower().rstrip(".") not in self._hosts or port != str(_PORT):
            return False
        address = public_address(host)
        if not address:
            return False
        try:
            far = socket.create_connection((address, _PORT), timeout=_CONNECT_S)
        except OSError:
            return False
        with far:
            try:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _pump(client, far)
            except OSError:
                pass
        return True


def public_address(host: str) -> str:
    """The first address of a name that is everybody's; empty where there is none."""
    try:
        found = socket.getaddrinfo(host, _PORT, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""
    addresses = [str(one[4][0]) for one in found]
    return next((one for one in addresses if ipaddress.ip_address(one.partition("%")[0]).is_global), "")


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
