"""Who may come in: a token in a private file, links that work once, and the cookie that they are changed for."""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import sha256

from harness.errors import StoreError
from harness.log.files import make_private_directory, replace_private

_TOKEN_CHARACTERS = 43
"""32 random bytes in the alphabet of URLs."""
_MOST_LINKS = 100


class Access:
    """Contract: compares in constant time, and never tells a secret but to who asks for it by name."""

    def __init__(self, token: str) -> None:
        self.token = token
        # Made from the token, so that a browser stays in when the server is started again, and is out when
        # the file is replaced. The token itself never leaves by this way.
        self.cookie = hmac.new(token.encode(), b"cookie of a browser", sha256).hexdigest()
        self._links: list[str] = []

    def new_link_code(self) -> str:
        """For one link; the oldest of very many are forgotten."""
        code = secrets.token_urlsafe(32)
        self._links = [*self._links, code][-_MOST_LINKS:]
        return code

    def redeem(self, code: str) -> bool:
        """Whether a link's code is good; it is not any more then."""
        found = [known for known in self._links if _is_same(known, code)]
        self._links = [known for known in self._links if known not in found]
        return bool(found)

    def is_token(self, text: str) -> bool:
        return _is_same(self.token, text)

    def is_cookie(self, text: str) -> bool:
        return _is_same(self.cookie, text)


def load_token(path: str) -> str:
    """The token in the file; a new one where there is none, or where others could have read it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return _write_token(path)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(file.fileno())
        text = file.read(200).decode("ascii", "replace").strip()
    is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return text if is_private and len(text) == _TOKEN_CHARACTERS else _write_token(path)


def _write_token(path: str) -> str:
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


def _is_same(known: str, given: str) -> bool:
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "surrogateescape"))
