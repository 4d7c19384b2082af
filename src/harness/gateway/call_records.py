"""What is recorded of a call: its request as a difference from earlier ones, its answer, and no secret of either."""

from __future__ import annotations

import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qsl, urlencode

from harness.gateway.bindings import joined
from harness.gateway.bodies import BodyWriter
from harness.gateway.call import GatewayCall
from harness.gateway.fingerprint import ANYWHERE, Fingerprint, MatchContext, Outline, fingerprint, outline
from harness.gateway.reply import Reply
from harness.log.raw import RawCall, RawRequest, RawResponse
from harness.log.redact.redactor import SHORTEST_CREDENTIAL
from harness.models.wires.wire import WireFormat, events_of

HIDDEN = "***"
_SECRET_PARAMETERS = frozenset(("access_token", "api_key", "key", "token"))
_SHOWN_HEADERS = re.compile(
    r"accept|content-(type|encoding|length)|cache-control|user-agent|originator|version|x-app|x-stainless-.*"
    r"|anthropic-(version|beta|ratelimit-.*)|openai-(beta|version|processing-ms|model)|x-ratelimit-.*|retry-after(-ms)?"
    r"|x-codex-(primary|secondary)-[a-z-]+|(x-)?request-id|x-should-retry|x-goog-api-client|transfer-encoding|date"
)
"""Everything else may say who somebody is."""
_ACCOUNT = re.compile(rb'("user_id"\s*:\s*")(?:[^"\\]|\\.){1,2000}"')
_LEVEL = 6


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value if _SHOWN_HEADERS.fullmatch(name) else HIDDEN
        for name, value in headers.items()
        if name not in ("host", "connection", "keep-alive")
    }


def public_path(target: str) -> str:
    """A path whose query holds no key."""
    bare, mark, query = target.partition("?")
    if not mark:
        return target
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = [(name, HIDDEN if name.lower() in _SECRET_PARAMETERS else value) for name, value in pairs]
    return f"{bare}?{urlencode(parameters, safe='*')}"


def print_of(call: GatewayCall, context: MatchContext, plain: bytes | None = None) -> Fingerprint:
    """`plain`: another body in place of the call's own."""
    route = f"{call.wire_name} {call.endpoint}" if call.endpoint else f"{call.http.method} {call.http.path}"
    if call.endpoint == "models":
        route += call.http.path
    wire = _conversing_wire(call)
    if plain is None or plain == call.plain:
        return fingerprint(route, wire, call.plain, call.http.body, context)
    again = GatewayCall(call.number, call.at_ms, call.arrived, plain)
    return fingerprint(route, wire, plain, again.http.body, context)


def outline_of(call: GatewayCall, context: MatchContext) -> Outline:
    """Which conversation it is of, and what it offers."""
    return outline(_conversing_wire(call), call.http.body, context)


def _conversing_wire(call: GatewayCall) -> WireFormat | None:
    return call.wire if call.wire_name and call.endpoint != "models" else None


class CallRecords:
    """Contract: `record` may be called from any thread; what `write` gets holds no secret, and is in one order."""

    def __init__(
        self,
        write: Callable[[Sequence[RawCall]], object],
        *,
        mask: Callable[[bytes], bytes] = bytes,
        context: MatchContext = ANYWHERE,
        keeps_bodies: bool = True,
    ) -> None:
        """`mask`: the same bytes with secrets masked."""
        self._write = write
        self._mask = mask
        self._context = context
        self._keeps_bodies = keeps_bodies
        self._bodies = BodyWriter()
        self._steps: Counter[str] = Counter()
        self._lock = threading.Lock()

    def record(self, call: GatewayCall, reply: Reply) -> None:
        if reply.is_client_gone and reply.is_cut and call.endpoint == "answer":
            # Some programs leave as soon as they have read the last event: nothing was cut off then.
            reply.is_cut = not call.wire.end(events_of(reply.content)).stop_reason
        keys = [key.encode() for key in call.shown_keys if len(key) >= SHORTEST_CREDENTIAL]
        plain = self._without_secrets(_without(keys, call.plain))
        content = self._masked_answer(_without(keys, reply.content))
        outlined = outline_of(call, self._context)
        response = RawResponse(
            at_ms=time.time_ns() // 1_000_000,
            id=call.number,
            status=reply.status,
            headers=shown_headers(reply.headers),
            took_ms=reply.took_ms,
            first_ms=reply.first_ms,
            origin=reply.origin,
            differs=reply.differs,
            is_cut=reply.is_cut,
            is_client_gone=reply.is_client_gone,
            is_masked=content != reply.content,
            body_size=len(reply.content),
            data=zlib.compress(content, _LEVEL) if content else b"",
        )
        with self._lock:
            request = self._request(call, plain, outlined, self._step(call, reply, outlined))
            self._write((request, response))

    def cut(self, between: Callable[[], object]) -> None:
        """What is recorded from now on can be read without what was recorded until now. `between`: done while nothing is."""
        with self._lock:
            between()
            self._bodies = BodyWriter()

    def _request(self, call: GatewayCall, plain: bytes, outlined: Outline, step: int) -> RawRequest:
        stored_body = self._bodies.store(call.number, plain) if plain and self._keeps_bodies else None
        return RawRequest(
            at_ms=call.at_ms,
            id=call.number,
            method=call.http.method,
            path=public_path(call.arrived.target),
            headers=shown_headers(call.headers),
            wire=call.wire_name,
            purpose=call.endpoint or "",
            model=call.model,
            conversation=outlined.conversation,
            step=step,
            tools=outlined.tools,
            tool_count=outlined.tool_count,
            body_size=len(call.plain),
            new_size=stored_body.new_bytes if stored_body else 0,
            of=stored_body.of if stored_body else 0,
            prefix=stored_body.prefix if stored_body else 0,
            suffix=stored_body.suffix if stored_body else 0,
            is_masked=plain != call.plain,
            is_unreadable=bool(call.trouble),
            data=stored_body.data if stored_body else b"",
        )

    def _step(self, call: GatewayCall, reply: Reply, outlined: Outline) -> int:
        if call.endpoint != "answer":
            return 0
        if is_whole(reply.status, is_cut=reply.is_cut):
            self._steps[outlined.conversation] += 1
            return self._steps[outlined.conversation]
        return self._steps[outlined.conversation] + 1

    def _masked_answer(self, content: bytes) -> bytes:
        """Pieces of a stream may cut a secret in two: then they are joined, and masked as one."""
        masked = self._mask(content)
        whole = joined(masked)
        masked_whole = self._mask(whole)
        return masked if masked_whole == whole else masked_whole

    def _without_secrets(self, plain: bytes) -> bytes:
        if b'"user_id"' in plain:
            plain = _ACCOUNT.sub(rb'\1***"', plain)
        return self._mask(plain)


def _without(keys: Sequence[bytes], data: bytes) -> bytes:
    """What a request shows as its key is written nowhere else either: a log-in is known by this alone."""
    for key in keys:
        data = data.replace(key, HIDDEN.encode())
    return data


def is_whole(status: int, *, is_cut: bool) -> bool:
    """Whether an answer counts as a step."""
    return 200 <= status < 300 and not is_cut
