"""The way to one client. Where the server below allows it, a message that was made once is written as it is.

A frame of a WebSocket looks the same for every client, so it need not be built, copied and scheduled for each. That
takes a look behind the protocol between servers and applications; where there is nothing to be seen, messages go
the usual way.
"""

from __future__ import annotations

from typing import Any

from starlette.types import Send

_NEEDED = ("transport", "writable", "conn", "close_sent", "disconnected", "handshake_complete")


class Packet:
    """One message, as text and as the frame that carries it; each made when it is first needed."""

    __slots__ = ("_frame", "_text", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._text: str | None = None
        self._frame: bytes | None = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = self.data.decode()
        return self._text

    @property
    def frame(self) -> bytes:
        if self._frame is None:
            size = len(self.data)
            if size < 126:
                head = bytes((0x81, size))
            elif size < 1 << 16:
                head = b"\x81\x7e" + size.to_bytes(2, "big")
            else:
                head = b"\x81\x7f" + size.to_bytes(8, "big")
            self._frame = head + self.data
        return self._frame


class WebSocketWriter:
    """Contract: `send` waits until the client can take more; `write_now` never waits."""

    def __init__(self, send: Send) -> None:
        self._send = send
        protocol: Any = getattr(send, "__self__", None)
        is_known = all(hasattr(protocol, name) for name in _NEEDED)
        # An extension (compression) gives every client frames of its own.
        self._protocol = protocol if is_known and not protocol.conn.extensions else None

    async def send(self, packet: Packet) -> None:
        """Raises OSError or RuntimeError when the client is gone."""
        if self._protocol is not None:
            await self._protocol.writable.wait()
            if self.write_now(packet):
                return
        await self._send({"type": "websocket.send", "text": packet.text})

    @property
    def is_direct(self) -> bool:
        return self._protocol is not None

    def write_now(self, packet: Packet) -> bool:
        """False when the client cannot take it at once, or is gone."""
        protocol = self._protocol
        if (
            protocol is None
            or not protocol.writable.is_set()
            or protocol.close_sent
            or protocol.disconnected
            or not protocol.handshake_complete
        ):
            return False
        protocol.transport.write(packet.frame)
        return True
