"""Requests to a `harness serve`, without an extra."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote

import msgspec

from harness.errors import HarnessError, UsageError
from harness.interfaces.cli.server_address import opened
from harness.interfaces.commands import Command

_TIMEOUT_S = 15.0
_NOT_LET_IN = (401, 403, 421)


class ServerCalls:
    """Contract: thread-safe. Every method raises HarnessError."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def command(self, session: str, command: Command) -> None:
        body = {"commands": [msgspec.to_builtins(command)]}
        self.post(f"/api/sessions/{quote(session, safe='')}/commands?client=terminal", body)

    def start(self, **setup: Any) -> str:
        """A new conversation with a prompt; its id."""
        return str(self.post("/api/sessions", setup)["id"])

    def post(self, path: str, body: Any) -> Any:
        return self._asked(path, msgspec.json.encode(body))

    def get(self, path: str) -> Any:
        return self._asked(path, None)

    def _asked(self, path: str, body: bytes | None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            with opened(self.url, path, headers, body, _TIMEOUT_S) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise _refused(error) from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise HarnessError(
                f"no server answers at {self.url}: {reason}", hint="`harness serve` starts one"
            ) from error
        except ValueError as error:
            raise HarnessError(
                f"what answers at {self.url} is not `harness serve`", hint="check the address"
            ) from error


def is_answer(error: HarnessError) -> bool:
    """Whether a server that let this program in has refused the request; else no such server was reached."""
    cause = error.__cause__
    return isinstance(cause, HTTPError) and cause.code not in _NOT_LET_IN


def _refused(error: HTTPError) -> HarnessError:
    try:
        words = json.load(error)["error"]
        return UsageError(str(words["message"]), hint=str(words.get("hint") or ""))
    except (ValueError, LookupError, TypeError, OSError):
        return HarnessError(f"the server refused the request ({error.code})", hint="check the token")
