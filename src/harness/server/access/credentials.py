"""Credentials: programs use the token of a private file, browsers a credential that they got for a link.

Rules
1. There are no cookies: a browser sends those to every server on the same host, whatever its port.
2. A link works once, and for some minutes.
3. The credential that a browser then sends is known to this process alone. It expires with the process, after a day
   without use, after a week, and when browsers are logged out.
4. Beyond that, a browser stores a key that no page can read. With it, it proves its identity to a restarted server
   without sending a secret. The proof holds for the address that the browser has opened: a program that has taken the
   port meanwhile learns nothing, not even by passing on the question of a server that now listens elsewhere.
5. The token and the keys may be replaced while the server runs; that is noticed at once.
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec

from harness.errors import StoreError, UsageError
from harness.log.private_files import make_private_directory, replace_private
from harness.server.access.browser_keys import BrowserKeys

_TOKEN_CHARACTERS = 43
"""32 random bytes in the alphabet of URLs."""
_SHORTEST_CHOSEN = 20
_MOST_TOKEN_BYTES = 500
_MOST_LINKS = 100
_MOST_LOGINS = 1_000
LINK_S = 15 * 60
_IDLE_S = 24 * 3600
_LONGEST_S = 7 * 24 * 3600
_NONCE_S = 60

Clock = Callable[[], float]


class AccessGrant:
    """Access of one program or browser, until it is revoked."""

    def __init__(self, key_name: str = "", ends_s: float = float("inf")) -> None:
        self.key_name = key_name
        """Of a browser."""
        self.ends_s = ends_s
        self.idle_ends_s = float("inf")
        self.is_revoked = False

    def is_valid(self, now_s: float) -> bool:
        return not self.is_revoked and now_s < min(self.ends_s, self.idle_ends_s)


class Login(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A browser that is logged in."""

    id: str
    browser: str
    """“Firefox on Linux”; empty when it is not known."""
    used_ms: int
    is_current: bool
    """Whether it is the one that asks."""


class Access:
    """Contract: compares in constant time."""

    def __init__(
        self,
        token: str,
        *,
        token_file: str = "",
        keys: BrowserKeys | None = None,
        clock: Clock = time.time,
        read_file: Callable[[str], str] | None = None,
    ) -> None:
        """`token_file`: where the token is read from, and how; replacing the file replaces the token."""
        self.token = token
        self._read_file = read_file or _read_token
        self._file = token_file
        self._file_mark = _mark(token_file)
        self._keys = keys or BrowserKeys()
        self._clock = clock
        self._logouts = self._keys.logouts
        self._links: dict[str, float] = {}
        self._of_token = AccessGrant()
        self._logins: dict[str, AccessGrant] = {}
        """By the credential's hash."""
        self._nonce_key = secrets.token_bytes(32)

    def new_link_code(self) -> str:
        """For one link; the oldest of very many are forgotten."""
        code = secrets.token_urlsafe(32)
        newest = list(self._links.items())[-(_MOST_LINKS - 1) :]
        self._links = {**dict(newest), code: self._clock() + LINK_S}
        return code

    def redeem(self, code: str) -> bool:
        """Whether a link's code is valid; it is used up by this."""
        links = [link for link in self._links if _is_same(link, code)]
        return bool(links) and self._clock() < self._links.pop(links[0])

    def log_in(self, browser: str = "") -> tuple[str, str, str]:
        """For a browser with a valid link: its credential, the name of its key and the key. Raises StoreError."""
        name, secret = self._keys.add(browser)
        return self._new_credential(name), name, secret

    def nonce(self) -> str:
        """A value that only this server can issue, valid for a short time, to prove a key with."""
        payload = f"{int(self._clock()) + _NONCE_S}.{secrets.token_urlsafe(16)}"
        return f"{payload}.{self._seal(payload)}"

    def log_in_again(self, key_name: str, nonce: str, proof: str, origins: Iterable[str]) -> str:
        """A credential for a browser that proves its key to one of these origins, which are ours; empty when it does not.
        Raises StoreError.
        """
        payload, _, seal = nonce.rpartition(".")
        is_ours = _is_same(self._seal(payload), seal)
        if not is_ours or int(payload.partition(".")[0]) < self._clock():
            return ""
        messages = [proof_message(origin, nonce) for origin in origins]
        return self._new_credential(key_name) if self._keys.is_proof(key_name, messages, proof) else ""

    def log_out(self, grant: AccessGrant) -> None:
        """One browser. Raises StoreError."""
        if grant.key_name:
            self._keys.remove(grant.key_name)
        self._revoke(lambda other: other.key_name == grant.key_name)

    def logins(self, asking: AccessGrant) -> list[Login]:
        """All browsers that are logged in, the last used first."""
        used_s = {login.key_name: login.idle_ends_s - _IDLE_S for login in self._logins.values()}
        logins_shown = [
            Login(
                id=name,
                browser=browser,
                used_ms=int(max(last_s, used_s.get(name, 0.0)) * 1000),
                is_current=name == asking.key_name,
            )
            for name, browser, last_s in self._keys.listed()
        ]
        return sorted(logins_shown, key=lambda login: login.used_ms, reverse=True)

    def log_out_one(self, key_name: str) -> bool:
        """The browser with this key; whether there was one. Raises StoreError."""
        if not key_name or key_name not in self._keys:
            return False
        self.log_out(AccessGrant(key_name))
        return True

    def log_out_all(self) -> None:
        """All browsers. Raises StoreError."""
        self._keys.log_out()
        self.refresh()

    def grant(self, bearer: str) -> AccessGrant | None:
        """The access that this token or credential gives, if it is valid."""
        self.refresh()
        if self.token and _is_same(self.token, bearer):
            return self._of_token
        now_s = self._clock()
        login = self._logins.get(_hashed(bearer))
        if login is None or not login.is_valid(now_s):
            return None
        login.idle_ends_s = now_s + _IDLE_S
        return login

    def is_valid(self, grant: AccessGrant) -> bool:
        return grant.is_valid(self._clock())

    def refresh(self) -> None:
        """Notice a token that was replaced, and that browsers were logged out."""
        if self._file and (mark := _mark(self._file)) != self._file_mark:
            self._file_mark = mark
            self._of_token.is_revoked = True
            self._of_token = AccessGrant()
            self.token = self._read_file(self._file)
        self._keys.refresh()
        if self._keys.logouts != self._logouts:
            self._logouts = self._keys.logouts
            self._revoke(lambda _: True)

    def _new_credential(self, key_name: str) -> str:
        credential = secrets.token_urlsafe(32)
        now_s = self._clock()
        grant = AccessGrant(key_name, now_s + _LONGEST_S)
        grant.idle_ends_s = now_s + _IDLE_S
        known_logins = {name: login for name, login in self._logins.items() if login.is_valid(now_s)}
        self._logins = dict([*known_logins.items(), (_hashed(credential), grant)][-_MOST_LOGINS:])
        return credential

    def _revoke(self, is_meant: Callable[[AccessGrant], bool]) -> None:
        for name, grant in list(self._logins.items()):
            if is_meant(grant):
                grant.is_revoked = True
                del self._logins[name]

    def _seal(self, text: str) -> str:
        return hmac.new(self._nonce_key, text.encode(), sha256).hexdigest()


def proof_message(origin: str, nonce: str) -> str:
    """What a browser signs. Neither part can have a line break, so that no other pair reads the same."""
    return f"{origin}\n{nonce}"


def open_access(own_file: str, keys_file: str, *, named_file: str = "", token: str = "") -> Access:
    """With a given `token`, that of a named file, or that of our own file; a file
    that is not there is made. Raises HarnessError.
    """
    keys = BrowserKeys(keys_file)
    if token:
        return Access(_checked(token, "the token in the environment"), keys=keys)
    if named_file and os.path.exists(named_file):
        own_token = _checked(_read_named(named_file), f"the token in {named_file}")
        return Access(own_token, token_file=named_file, keys=keys, read_file=_read_named)
    path = named_file or own_file
    return Access(load_token(path), token_file=path, keys=keys)


def load_token(path: str) -> str:
    """The token in our own file; a new one where there is none, or where others could have read it."""
    return _read_token(path) or write_token(path)


def write_token(path: str) -> str:
    """A new token; servers that use this file accept no other from now on. Raises StoreError."""
    token = secrets.token_urlsafe(32)
    try:
        make_private_directory(os.path.dirname(path))
        replace_private(path, f"{token}\n".encode())
    except OSError as error:
        raise StoreError(
            f"cannot write the token of the server to {path}: {error.strerror}",
            hint="set XDG_DATA_HOME to a place that can be written",
        ) from error
    return token


def is_open_to_others(path: str) -> bool:
    """Whether other users of this machine can read it."""
    try:
        return bool(os.stat(path).st_mode & 0o077)
    except OSError:
        return False


def _checked(token: str, where: str) -> str:
    if len(token) < _SHORTEST_CHOSEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"{where} is too short, or has characters that no header can have",
            hint=f"at least {_SHORTEST_CHOSEN} random letters and digits: python3 -c "
            "'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token


def _read_token(path: str) -> str:
    """Empty if there is none, or if other users could have read it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(file.fileno())
        text = file.read(_MOST_TOKEN_BYTES).decode("ascii", "replace").strip()
    is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return text if is_private and len(text) == _TOKEN_CHARACTERS else ""


def _read_named(path: str) -> str:
    """Secrets that are mounted belong to others, and may be reached by a link."""
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_TOKEN_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _mark(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _hashed(credential: str) -> str:
    return sha256(credential.encode("utf-8", "surrogateescape")).hexdigest()


def _is_same(known_code: str, code: str) -> bool:
    return hmac.compare_digest(known_code.encode(), code.encode("utf-8", "surrogateescape"))
