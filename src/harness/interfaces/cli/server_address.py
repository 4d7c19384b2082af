"""Where the server of this machine is: `harness serve` leaves its address, and its token, in private files."""

from __future__ import annotations

import os
from typing import Any

from harness.config import data_directory
from harness.errors import HarnessError, UsageError
from harness.log.files import make_private_directory, replace_private

_TIMEOUT_S = 10.0


def token_path() -> str:
    return os.path.join(data_directory(), "server", "token")


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
    return found.rstrip("/")


def token_of(path: str) -> str:
    token = _read(path or token_path())
    if not token:
        raise UsageError(f"there is no token in {path or token_path()}", hint="`harness serve` makes it")
    return token


def get_json(url: str, token: str) -> Any:
    """Raises HarnessError."""
    import json
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    request = Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 # the user named it
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return json.load(answer)
    except HTTPError as error:
        raise HarnessError(f"the server refuses ({error.code})", hint="is this its token?") from error
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise HarnessError(
            f"no server answers at {url}: {reason}", hint="`harness serve` starts one"
        ) from error


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(500).strip()
    except (OSError, UnicodeDecodeError):
        return ""
