"""Keys that log a browser in again after a restart of the server, and that its page can use but not read.

Each browser that was logged in has a key of its own, in a private file here and, there, in a storage that no page can
read. The content of the file gives access as a browser, as the token's file does as a program.
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256

import msgspec

from harness.errors import StoreError
from harness.log.private_files import make_private_directory, open_private, replace_private

_EXPIRES_S = 30 * 24 * 3600
"""Since it was last used."""
_MOST_KEYS = 50
_MOST_BYTES = 1_000_000

_BROWSERS = (("Firefox/", "Firefox"), ("Edg/", "Edge"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)


class _Key(msgspec.Struct, rename="camel", omit_defaults=True):
    secret: str
    used_s: int
    browser: str = ""
    """The name that it had when it was logged in."""


class _StoredKeys(msgspec.Struct, rename="camel"):
    keys: dict[str, _Key] = msgspec.field(default_factory=dict)
    logouts: int = 0
    """How often all browsers were logged out."""


class BrowserKeys:
    """Contract: several servers may use one file. Without a path, nothing is stored."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self._keys_stored = _StoredKeys()
        self.refresh()

    @property
    def logouts(self) -> int:
        return self._keys_stored.logouts

    def __contains__(self, name: str) -> bool:
        return name in self._keys_stored.keys

    def refresh(self) -> None:
        """Read what other servers have changed."""
        if self._path and (mark := _mark(self._path)) != self._mark:
            logouts = self._keys_stored.logouts
            self._mark, self._keys_stored = mark, _read(self._path)
            # A file that is missing or damaged logs all browsers out.
            self._keys_stored.logouts = (
                max(self._keys_stored.logouts, logouts + 1) if mark is None else self._keys_stored.logouts
            )

    def add(self, browser: str = "") -> tuple[str, str]:
        """A new key: its name and its secret. Raises StoreError."""
        name, secret = secrets.token_urlsafe(12), secrets.token_hex(32)
        with self._changing() as stored_keys:
            stored_keys.keys[name] = _Key(secret, int(time.time()), browser)
        return name, secret

    def listed(self) -> list[tuple[str, str, int]]:
        """The name, the browser and the last use (in seconds) of every key, the last used first."""
        self.refresh()
        known_keys = sorted(self._keys_stored.keys.items(), key=lambda item: item[1].used_s, reverse=True)
        return [(name, key.browser, key.used_s) for name, key in known_keys]

    def is_proof(self, name: str, messages: Iterable[str], proof: str) -> bool:
        """Whether it was made of one of the messages with the key of this name; if so, the key stays valid for longer."""
        self.refresh()
        key = self._keys_stored.keys.get(name)
        if key is None or time.time() - key.used_s > _EXPIRES_S:
            return False
        secret, shown_proof = bytes.fromhex(key.secret), proof.encode("ascii", "replace")
        expected = [hmac.new(secret, message.encode(), sha256).hexdigest().encode() for message in messages]
        if not any(hmac.compare_digest(proof, shown_proof) for proof in expected):
            return False
        with self._changing() as stored_keys:
            if name in stored_keys.keys:
                stored_keys.keys[name].used_s = int(time.time())
        return True

    def remove(self, name: str) -> None:
        """Raises StoreError."""
        with self._changing() as stored_keys:
            stored_keys.keys.pop(name, None)

    def log_out(self) -> None:
        """Make all keys and credentials invalid. Raises StoreError."""
        with self._changing() as stored_keys:
            stored_keys.keys.clear()
            stored_keys.logouts += 1

    @contextmanager
    def _changing(self) -> Iterator[_StoredKeys]:
        if not self._path:
            yield self._keys_stored
            return
        try:
            make_private_directory(os.path.dirname(self._path))
            fd = open_private(self._path + ".lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX)
            self.refresh()
            yield self._keys_stored
            self._forget_old()
            replace_private(self._path, msgspec.json.encode(self._keys_stored) + b"\n")
            self._mark = _mark(self._path)
        except OSError as error:
            raise self._unwritable(error) from error
        finally:
            os.close(fd)

    def _forget_old(self) -> None:
        oldest_s = time.time() - _EXPIRES_S
        known_keys = sorted(self._keys_stored.keys.items(), key=lambda item: item[1].used_s)[-_MOST_KEYS:]
        self._keys_stored.keys = {name: key for name, key in known_keys if key.used_s >= oldest_s}

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(
            f"cannot store the logins in {self._path}: {error.strerror}",
            hint="set XDG_DATA_HOME to a place that can be written",
        )


def _read(path: str) -> _StoredKeys:
    try:
        fd = open_private(path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return _StoredKeys()
            return msgspec.json.decode(file.read(_MOST_BYTES), type=_StoredKeys)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return _StoredKeys()


def _mark(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def browser_name(user_agent: str, *, has_system: bool = True) -> str:
    """“Firefox on Linux”, or “Firefox”; empty: it is no known browser."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "") if has_system else ""
    return f"{browser} on {system}" if browser and system else browser
