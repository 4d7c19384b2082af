"""Where the server of this machine is: `harness serve` leaves its address, and its token, in private files."""

from __future__ import annotations

import os
from typing import Any

from harness.config import data_directory
from harness.errors import HarnessError, UsageError
from harness.interfaces.cli.listening import TOKEN_VARIABLE
from harness.log.private_files import make_private_directory, replace_private

_TIMEOUT_S = 10.0


def token_path() -> str:
    return os.path.join(data_directory(), "server", "token")


def browsers_path() -> str:
    """What lets browsers in again."""
    return os.path.join(data_directory(), "server", "browsers.json")


def _address_path() -> str:
    return os.path.join(data_directory(), "server", "address")


def leave_address(url: str) -> None:
    try:
        make_private_directory(os.path.dirname(_address_path()))
        replace_private(_address_path(), f"{url}\n".encode())
    except OSError:
        return  # then clients must be told where it is


def address_of(url: str) -> str:
    """The one that was given, else that of this machine's server. Raises UsageError."""
    found = url or _read(_address_path())
    if not found:
        raise UsageError(
            "no server was started on this machine", hint="`harness serve` starts one; or give --url"
        )
    if not found.startswith(("http://", "https://")):
        raise UsageError(f"not the address of a server: {found!r}", hint="write http://127.0.0.1:4780")
    return found.rstrip("/")


def token_of(path: str) -> str:
    """That of the file; where none is named, that of the environment, else that of this machine's server."""
    token = _read(path) if path else os.environ.get(TOKEN_VARIABLE, "").strip() or _read(token_path())
    if not token:
        raise UsageError(f"there is no token in {path or token_path()}", hint="`harness serve` makes it")
    return token


def newest_session(url: str, token: str) -> str:
    """Its id; empty when there is none yet. Raises HarnessError when no server of ours answers there."""
    sessions = _asked(url, token, "/api/sessions?limit=1", "sessions")
    return str(sessions[0]["id"]) if sessions else ""


def new_link(url: str, token: str) -> str:
    """That lets a browser in. Raises HarnessError when no server of ours answers there."""
    return str(_asked(url, token, "/api/links", "link", body=b"{}"))


def _asked(url: str, token: str, path: str, wanted: str, body: bytes | None = None) -> Any:
    import json
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        request = Request(f"{url}{path}", body, headers)  # noqa: S310 # the user named it
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return json.load(answer)[wanted]
    except HTTPError as error:
        raise HarnessError(f"the server refuses ({error.code})", hint="is this its token?") from error
    except (ValueError, LookupError, TypeError) as error:
        raise HarnessError(
            f"what answers at {url} is not `harness serve`", hint="is this its address?"
        ) from error
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        hint = "`harness serve` starts one"
        raise HarnessError(f"no server answers at {url}: {reason}", hint=hint) from error


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(500).strip()
    except (OSError, UnicodeDecodeError):
        return ""
