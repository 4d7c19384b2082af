"""Hosts that a sealed run may reach: a real tunnel through the gateway, and everything that must not become one."""

from __future__ import annotations

import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway_far_sides import TOKEN
from harness.errors import UsageError
from harness.gateway.gateway import ModelGateway
from harness.gateway.pass_on import PassOn, Upstream
from harness.gateway.tunnels import Tunnels, is_public, require_host_names

HOST = "packages.example.org"
PUBLIC = "93.184.216.34"


class Echo:
    """A server that sends back what it gets, in capitals, and knows to which address it was reached."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.silent: set[str] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def connect(self, address: str) -> socket.socket:
        self.reached.append(address)
        if address in self.silent:
            raise OSError("no route to this network")
        return socket.create_connection(self._listening.getsockname(), timeout=10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data.upper())

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)


@contextmanager
def tunnelling(addresses: list[str], hosts: tuple[str, ...] = (HOST,)) -> Iterator[tuple[ModelGateway, Echo]]:
    echo = Echo()
    tunnels = Tunnels(hosts, resolve=lambda _: list(addresses), connect=echo.connect)
    passed = PassOn(Upstream(url="http://127.0.0.1:9"))
    with ModelGateway(passed, token=TOKEN, tunnel=tunnels) as gateway:
        yield gateway, echo
    passed.close()
    echo.close()
    assert not gateway.faults, gateway.faults


def _connect(
    port: int, target: str = f"{HOST}:443", user: str = f"harness:{TOKEN}"
) -> tuple[socket.socket, bytes]:
    """The connection, and the head of the answer."""
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    words = b64encode(user.encode()).decode()
    client.sendall(
        f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\nproxy-authorization: Basic {words}\r\n\r\n".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head and (piece := client.recv(65536)):
        head += piece
    return client, head


def test_bytes_go_both_ways_through_a_tunnel_until_one_side_is_done() -> None:
    with tunnelling(["10.0.0.1", PUBLIC]) as (gateway, echo):
        client, head = _connect(gateway.port)
        with client:
            assert head.startswith(b"HTTP/1.1 200 ")
            for size in (1, 70_000):
                client.sendall(b"x" * size)
                answered = b""
                while len(answered) < size:
                    answered += client.recv(65536)
                assert answered == b"X" * size
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        assert echo.reached == [PUBLIC]  # never the private one, and its name is not asked for again


def test_another_address_of_the_name_is_tried_where_one_does_not_answer() -> None:
    v6 = "2606:2800:220:1:248:1893:25c8:1946"
    with tunnelling([v6, "10.0.0.1", PUBLIC]) as (gateway, echo):
        echo.silent = {v6}
        client, head = _connect(gateway.port)
        client.close()
        assert head.startswith(b"HTTP/1.1 200 ")
        assert echo.reached == [v6, PUBLIC]


@pytest.mark.parametrize(
    "target",
    [
        "example.org:443",
        f"evil.{HOST}:443",
        f"{HOST}.evil.org:443",
        f"{HOST}:80",
        f"{HOST}:0443",
        f"{HOST}:443:443",
        f"{HOST}:",
        HOST,
        f"user@{HOST}:443",
        f"http://{HOST}:443/",
        f"{HOST}%00.evil.org:443",
        f"{PUBLIC}:443",
        "127.0.0.1:443",
        "[::1]:443",
    ],
)
def test_only_this_name_on_this_port_can_be_reached(target: str) -> None:
    with tunnelling([PUBLIC]) as (gateway, echo):
        client, head = _connect(gateway.port, target)
        client.close()
        assert not head.startswith(b"HTTP/1.1 200")
        assert echo.reached == []


@pytest.mark.parametrize("user", ["harness:wrong", "", f"{TOKEN}:", f"harness:{TOKEN}x"])
def test_only_the_run_itself_can_use_the_tunnel(user: str) -> None:
    with tunnelling([PUBLIC]) as (gateway, echo):
        client, head = _connect(gateway.port, user=user)
        client.close()
        assert head.startswith(b"HTTP/1.1 403 ")
        assert echo.reached == []


PRIVATE = [
    *(
        "127.0.0.1",
        "127.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
    ),
    *(
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "192.0.2.1",
        "::1",
        "::",
        "fe80::1%lo",
        "fc00::1",
        "fd00:ec2::254",
    ),
    *(
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "ff02::1",
    ),
    *("2001:0:7f00:1::1", "not an address", ""),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_that_points_into_a_private_network_is_not_reached(address: str) -> None:
    assert not is_public(address)
    with tunnelling([address]) as (gateway, echo):
        client, head = _connect(gateway.port)
        client.close()
        assert head.startswith(b"HTTP/1.1 403 ")
        assert echo.reached == []


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946"])
def test_public_addresses_are_reached(address: str) -> None:
    assert is_public(address)


def test_a_number_that_is_spelled_like_a_name_is_resolved_here_and_refused() -> None:
    for name in ("0x7f000001", "127.1", "2130706433", "017700000001", "localhost"):
        with socket.socket() as client:
            assert not Tunnels([name])(f"{name}:443", client)


@pytest.mark.parametrize(
    "host",
    [
        "*.example.org",
        "example.org:443",
        "https://example.org",
        "",
        "a b",
        "127.0.0.1",
        "[::1]",
        "-x.org",
        "a..b",
    ],
)
def test_what_is_no_name_of_a_host_cannot_be_allowed(host: str) -> None:
    with pytest.raises(UsageError, match="not the name of a host"):
        require_host_names([host])


def test_names_of_hosts_can_be_allowed() -> None:
    require_host_names(["packages.example.org", "localhost", "a", "x-y.example.org."])
