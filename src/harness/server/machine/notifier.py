"""Notifications when a session needs a person or ends: a signed webhook, or a push as of ntfy.

The targets are set by the command line or the user's own settings alone; a client of the server can neither see nor
change them. Redirects are not followed, what is sent is redacted and short, and each message is tried a few times.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import queue
import secrets
import threading
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from email.header import Header
from typing import Any, Literal, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from harness.config import data_directory
from harness.errors import UsageError
from harness.folds.inbox.row import NEEDS_YOU, InboxRow, RowAsk
from harness.formatting.escapes import single_line
from harness.log.private_files import make_private_directory, open_private, replace_private
from harness.log.redact.redactor import redact_text, secrets_in
from harness.version import __version__

NotifiedEvent = Literal["needs-you", "end", "test"]
_ENDS = ("succeeded", "failed", "lost")
"""A session that was stopped is not notified."""
_ASKS = {"question": "asks a question", "tool": "asks a question", "plan": "asks to review a plan"}
_PUSH = "ntfy+"
_TIMEOUT_S = 10.0
_PAUSES_S = (2.0, 10.0)
"""Before a message is tried again."""
_MOST_WAITING = 100
_MOST_REMEMBERED = 2_000
_LONGEST_TEXT = 200
_SECRET_BYTES = 32


class NotifyTarget(NamedTuple):
    url: str
    is_push: bool
    authorization: str = ""

    @property
    def shown(self) -> str:
        """Without what may be secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}"


class SentNotice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of a webhook."""

    event: NotifiedEvent
    session: str = ""
    title: str = ""
    agent: str = ""
    project: str = ""
    state: str = ""
    text: str = ""
    """One sentence for people."""
    link: str = ""
    sent_ms: int = 0


class NotifyChoices(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    needs_you: bool = True
    ended: bool = True


class NotifySettings(NotifyChoices, frozen=True, kw_only=True, rename="camel"):
    """What is notified, and where to, as far as a client may know."""

    targets: list[str] = []
    last_sent_ms: int = 0
    last_error: str = ""


def target_of(text: str) -> NotifyTarget:
    """Raises UsageError for what is no address."""
    is_push = text.startswith(_PUSH)
    try:
        parts = urlsplit(text.removeprefix(_PUSH))
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise UsageError(
            f"not an address to notify: {text[:100]!r}",
            hint="write https://HOST/PATH, or ntfy+https://HOST/TOPIC",
        )
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(pair.encode()).decode()}"
    place = parts.netloc.rpartition("@")[2]
    return NotifyTarget(
        urlunsplit((parts.scheme, place, parts.path, parts.query, "")), is_push, authorization
    )


class Notifier:
    """Contract: `note` never waits; messages are sent by a thread of its own. `close` drops what was not sent."""

    def __init__(
        self,
        targets: Sequence[NotifyTarget],
        page_url: str,
        *,
        folder: str = "",
        environ: Mapping[str, str] | None = None,
        pauses_s: Sequence[float] = _PAUSES_S,
    ) -> None:
        """`page_url`: of the server, for links. `folder`: for the secret and the choices."""
        self._targets = list(targets)
        self._page_url = page_url
        self._folder = folder or os.path.join(data_directory(), "server")
        self._secrets = secrets_in(os.environ if environ is None else environ)
        self._pauses_s = pauses_s
        self._choices = self._read_choices()
        self._waiting: queue.Queue[SentNotice | None] = queue.Queue(_MOST_WAITING)
        self._notified: dict[str, None] = {}
        self._is_closed = threading.Event()
        self._last_sent_ms = 0
        self._last_error = ""
        if self._targets:
            threading.Thread(target=self._work, name="harness-notify", daemon=True).start()

    @property
    def settings(self) -> NotifySettings:
        return NotifySettings(
            needs_you=self._choices.needs_you,
            ended=self._choices.ended,
            targets=[target.shown for target in self._targets],
            last_sent_ms=self._last_sent_ms,
            last_error=self._last_error,
        )

    def choose(self, choices: NotifyChoices) -> None:
        """Stored for the next start too. Raises OSError."""
        make_private_directory(self._folder)
        replace_private(self._choices_path, msgspec.json.encode(choices))
        self._choices = choices

    def note(self, before: InboxRow | None, row: InboxRow) -> None:
        """A row has changed."""
        if not self._targets:
            return
        if row.state in NEEDS_YOU and self._choices.needs_you:
            known_asks = {ask.id for ask in before.asks} if before is not None else set()
            for ask in row.asks:
                if ask.id not in known_asks and self._is_new(f"{row.id} {ask.id}"):
                    self._put(self._about(row, "needs-you", _asks(ask)))
        has_ended = row.state in _ENDS and before is not None and before.state not in _ENDS
        if has_ended and self._choices.ended and self._is_new(f"{row.id} {row.state_since_ms}"):
            words = "is done" if row.state == "succeeded" else "failed"
            reason = f": {row.failure.text}" if row.failure is not None else ""
            self._put(self._about(row, "end", words + reason))

    def test(self) -> list[str]:
        """Send one now; the problem of each target, empty where it arrived."""
        text = "This is a test of the notifications of Harness."
        note = SentNotice(event="test", text=text, link=self._page_url, sent_ms=_now_ms())
        return [self._attempt(target, note) for target in self._targets]

    def close(self) -> None:
        self._is_closed.set()
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return

    def _is_new(self, key: str) -> bool:
        is_new = key not in self._notified
        self._notified[key] = None
        while len(self._notified) > _MOST_REMEMBERED:
            del self._notified[next(iter(self._notified))]
        return is_new

    def _about(self, row: InboxRow, event: NotifiedEvent, words: str) -> SentNotice:
        agent = row.agent or row.agent_name
        place = f" in {row.project.name}" if row.project.name else ""
        return SentNotice(
            event=event,
            session=row.id,
            title=self._safe(row.title),
            agent=self._safe(agent),
            project=self._safe(row.project.name),
            state=row.state,
            text=self._safe(f"{agent}{place} {words}"),
            link=f"{self._page_url}/#/c/{row.id}",
            sent_ms=_now_ms(),
        )

    def _safe(self, text: str) -> str:
        return single_line(redact_text(text[: _LONGEST_TEXT * 4], self._secrets))[:_LONGEST_TEXT]

    def _put(self, note: SentNotice) -> None:
        try:
            self._waiting.put_nowait(note)
        except queue.Full:
            self._last_error = "too many notifications wait: some were dropped"

    def _work(self) -> None:
        while not self._is_closed.is_set():
            note = self._waiting.get()
            if note is None:
                return
            for target in self._targets:
                self._send(target, note)

    def _send(self, target: NotifyTarget, note: SentNotice) -> None:
        for pause_s in (*self._pauses_s, None):
            problem = self._attempt(target, note)
            if not problem or problem.startswith("refused") or pause_s is None:
                return
            if self._is_closed.wait(pause_s):
                return

    def _attempt(self, target: NotifyTarget, note: SentNotice) -> str:
        """The problem; empty when it arrived. After one that begins with `refused`, it is not tried again."""
        problem = ""
        try:
            with _opener.open(self._request(target, note), timeout=_TIMEOUT_S):
                self._last_sent_ms = _now_ms()
        except HTTPError as error:
            is_final = error.code < 500 and error.code not in (408, 429)
            problem = f"{'refused' if is_final else 'failed'} with status {error.code}"
            error.close()
        except (URLError, OSError, ValueError) as error:
            problem = f"failed: {getattr(error, 'reason', None) or error}"[:_LONGEST_TEXT]
        self._last_error = f"{target.shown} {problem}" if problem else ""
        return problem

    def _request(self, target: NotifyTarget, note: SentNotice) -> Request:
        headers = {"User-Agent": f"harness/{__version__}"}
        headers |= {"Authorization": target.authorization} if target.authorization else {}
        if target.is_push:
            body = note.text.encode("utf-8", "replace")
            headers |= {"Title": _header(note.title or "Harness"), "Click": note.link}
            headers |= {"Priority": "high", "Tags": "question"} if note.event == "needs-you" else {}
            headers["Content-Type"] = "text/plain; charset=utf-8"
        else:
            body = msgspec.json.encode(note)
            signed = hmac.new(self._secret().encode(), b"%d." % note.sent_ms + body, hashlib.sha256)
            headers |= {"Content-Type": "application/json", "X-Harness-Timestamp": str(note.sent_ms)}
            headers["X-Harness-Signature"] = f"sha256={signed.hexdigest()}"
        return Request(target.url, body, headers)  # noqa: S310 # the user named it

    def _secret(self) -> str:
        """Made when it is first needed. Raises OSError."""
        path = os.path.join(self._folder, "notify-secret")
        try:
            with os.fdopen(open_private(path, os.O_RDONLY), encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            make_private_directory(self._folder)
            replace_private(path, f"{secrets.token_hex(_SECRET_BYTES)}\n".encode())
            return self._secret()

    @property
    def _choices_path(self) -> str:
        return os.path.join(self._folder, "notify.json")

    def _read_choices(self) -> NotifyChoices:
        try:
            with os.fdopen(open_private(self._choices_path, os.O_RDONLY), "rb") as file:
                return msgspec.json.decode(file.read(), type=NotifyChoices)
        except (OSError, msgspec.MsgspecError):
            return NotifyChoices()


class _NoRedirects(HTTPRedirectHandler):
    """A redirect could lead anywhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = build_opener(_NoRedirects)


def _asks(ask: RowAsk) -> str:
    """Never the question itself: a notification leaves this machine."""
    return _ASKS.get(ask.kind) or f"asks to {ask.title}"


def _header(text: str) -> str:
    """Any text as the value of a header."""
    return text if text.isascii() else Header(text, "utf-8", maxlinelen=10**6).encode()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
