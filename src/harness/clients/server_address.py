"""Where a server listens and is found: the options for it, the private files with its address and its token, and plain
requests to it. Needs no extra.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hmac import compare_digest
from importlib.util import find_spec
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec

from harness.config import data_directory
from harness.errors import HarnessError, MissingExtra, UsageError
from harness.log.private_files import make_private_directory, replace_private

if TYPE_CHECKING:
    from urllib.error import HTTPError

    from harness.clients.commands import Command

TOKEN_VARIABLE = "HARNESS_SERVER_TOKEN"  # noqa: S105
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TIMEOUT_S = 10.0
_REQUEST_TIMEOUT_S = 15.0
REFUSED_STATUS = (401, 403, 421)
"""Not without the right token, origin and host name."""


def add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: loopback only)"
    )
    parser.add_argument(
        "--allow-remote",
        action="append",
        default=[],
        metavar="NAME[:PORT]",
        help="accept other machines, under this host name (may be repeated). Anyone with the token can then run commands "
        "as you, and without a proxy with TLS nothing is encrypted. PORT: if it is neither 80, 443 nor the port it "
        "listens on",
    )
    parser.add_argument(
        "--public-url",
        default="",
        metavar="URL",
        help="the public address, when it is behind a proxy: https://harness.example.com",
    )


def add_token(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "file with the token; it is created if it is missing (default: in your data directory). The variable "
        "HARNESS_SERVER_TOKEN has the token itself"
    )
    parser.add_argument("--token-file", default="", metavar="FILE", help=help_text)


def add_server(parser: argparse.ArgumentParser) -> None:
    """For a command that reads the files here, or asks a server."""
    help_text = "of a `harness serve` (default: the files of this machine)"
    parser.add_argument("--server", default="", metavar="URL", help=help_text)
    help_text = "where the server's token is (default: where `harness serve` keeps it)"
    parser.add_argument("--token-file", default="", metavar="FILE", help=help_text)


def token_of_environment() -> str:
    """Taken out of the environment: what is started from here has no use for it."""
    return os.environ.pop(TOKEN_VARIABLE, "").strip()


def checked_host(arguments: argparse.Namespace) -> str:
    """Raises UsageError for an address that others can reach, unless that is wanted."""
    host: str = arguments.host
    if host not in _LOOPBACK and not (arguments.allow_remote or arguments.public_url):
        raise UsageError(
            f"{host} can be reached by other machines",
            hint="to allow that, name the host under which they reach it: --allow-remote NAME",
        )
    return "127.0.0.1" if host == "localhost" else host


def token_path() -> str:
    return os.path.join(data_directory(), "server", "token")


def browsers_path() -> str:
    """The file with the keys of browsers."""
    return os.path.join(data_directory(), "server", "browsers.json")


def _address_path() -> str:
    return os.path.join(data_directory(), "server", "address")


def leave_address(url: str) -> None:
    try:
        make_private_directory(os.path.dirname(_address_path()))
        replace_private(_address_path(), f"{url}\n".encode())
    except OSError:
        return  # then clients need --url


def forget_address(url: str) -> None:
    """Remove the address when the server ends, unless another one was started."""
    if _read(_address_path()) == url:
        with suppress(OSError):
            os.unlink(_address_path())


def own_server(token_file: str = "") -> tuple[str, str]:
    """The address and the token of this machine's server. Raises HarnessError.

    The file with the address stays behind when a server is killed, and anything may listen there by then: before it
    is sent the token, it must prove that it knows it.
    """
    from urllib.error import HTTPError

    url, token = address_of(""), token_of(token_file)
    challenge, proof = token_hex(16), None
    try:
        with opened(url, f"/healthz?challenge={challenge}", {}, None) as answer:
            proof = json.loads(answer.read(1_000)).get("proof")
    except HTTPError as error:
        error.close()
    except OSError as error:
        raise HarnessError(
            f"no server answers at {url}: {_reason_of(error)}", hint="`harness serve` starts one"
        ) from error
    except (ValueError, AttributeError):
        pass  # no answer of ours
    if not isinstance(proof, str) or not compare_digest(
        proof.encode(), proof_of(token, challenge, url).encode()
    ):
        raise HarnessError(
            f"what listens at {url} is not the server of this machine, or has another token",
            hint="`harness serve` starts one",
        )
    return url, token


def answering_server() -> str:
    """The address of the server that was started here last, if one answers there, whatever its token; else empty.

    It proves nothing: it is for those who leave a server alone, and send it no token.
    """
    url = _read(_address_path())
    try:
        with opened(url, "/healthz", {}, None) as answer:
            return url if "status" in json.loads(answer.read(1_000)) else ""
    except (OSError, ValueError, TypeError):
        return ""


def proof_of(token: str, challenge: str, url: str) -> str:
    """The answer to a challenge, which needs the token. It contains the address, so that another program cannot pass the
    challenge on to the server.
    """
    return hmac.digest(token.encode(), f"harness serve\n{url}\n{challenge}".encode(), "sha256").hex()


def address_of(url: str) -> str:
    """The one that was given, else that of this machine's server. Raises UsageError."""
    address = url or _read(_address_path())
    if not address:
        raise UsageError(
            "no server was started on this machine", hint="`harness serve` starts one; or give --url"
        )
    if not address.startswith(("http://", "https://")):
        raise UsageError(f"not the address of a server: {address!r}", hint="write http://127.0.0.1:4780")
    return address.rstrip("/")


def token_of(path: str) -> str:
    """That of the file; where none is named, that of the environment, else that of this machine's server."""
    token = _read(path) if path else os.environ.get(TOKEN_VARIABLE, "").strip() or _read(token_path())
    if not token:
        raise UsageError(f"there is no token in {path or token_path()}", hint="`harness serve` creates it")
    return token


def newest_session(url: str, token: str) -> str:
    """Its id; empty when there is none yet. Raises HarnessError when no server of ours answers there."""
    answer = ServerCalls(url, token).get("/api/sessions?limit=1")
    try:
        return str(answer["sessions"][0]["id"]) if answer["sessions"] else ""
    except (LookupError, TypeError) as error:
        raise _not_ours(url) from error


def new_link(url: str, token: str) -> str:
    """A link that logs a browser in. Raises HarnessError when no server of ours answers there."""
    answer = ServerCalls(url, token).post("/api/links", {})
    if not isinstance(answer.get("link"), str):
        raise _not_ours(url)
    return str(answer["link"])


def _not_ours(url: str) -> HarnessError:
    return HarnessError(f"what answers at {url} is not `harness serve`", hint="check the address")


def opened(
    url: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout_s: float = _TIMEOUT_S
) -> Any:
    """The answer of a server. A proxy is not asked for one on this machine. Raises OSError, ValueError.

    An HTTPError is an answer too: whoever catches it closes it.
    """
    from urllib.parse import urlsplit
    from urllib.request import ProxyHandler, Request, build_opener

    request = Request(f"{url}{path}", body, dict(headers))  # noqa: S310 # the user named it
    proxies = [ProxyHandler({})] if urlsplit(url).hostname in _LOOPBACK else []
    return build_opener(*proxies).open(request, timeout=timeout_s)


class ServerCalls:
    """Requests to a server. Contract: thread-safe; every method raises HarnessError."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def command(self, session: str, command: Command) -> None:
        from urllib.parse import quote

        body = {"commands": [msgspec.to_builtins(command)]}
        self.post(f"/api/sessions/{quote(session, safe='')}/commands?client=terminal", body)

    def start(self, setup: Mapping[str, Any], prompt: str) -> str:
        """Start a conversation with a prompt; returns its id. `setup`: the fields of a `Setup`."""
        return str(self.post("/api/sessions", {**setup, "prompt": prompt})["id"])

    def post(self, path: str, body: Any) -> dict[str, Any]:
        return self._request(path, msgspec.json.encode(body))

    def get(self, path: str) -> dict[str, Any]:
        return self._request(path, None)

    def _request(self, path: str, body: bytes | None) -> dict[str, Any]:
        from urllib.error import HTTPError, URLError

        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            with opened(self.url, path, headers, body, _REQUEST_TIMEOUT_S) as answer:
                reply = json.load(answer)
        except HTTPError as error:
            raise _refused(error) from error
        except (URLError, OSError) as error:
            raise HarnessError(
                f"no server answers at {self.url}: {_reason_of(error)}", hint="`harness serve` starts one"
            ) from error
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise _not_ours(self.url)
        return reply


def is_answer(error: HarnessError) -> bool:
    """Whether a server that accepted our token has refused the request; else no such server was reached."""
    status = getattr(error.__cause__, "code", None)
    return status is not None and status not in REFUSED_STATUS


def _refused(error: HTTPError) -> HarnessError:
    try:
        refusal = json.load(error)["error"]
        return UsageError(str(refusal["message"]), hint=str(refusal.get("hint") or ""))
    except (ValueError, LookupError, TypeError, OSError):
        return HarnessError(f"the server refused the request ({error.code})", hint="check the token")
    finally:
        error.close()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(500).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def require_server() -> None:
    """Raises MissingExtra."""
    missing = [name for name in ("starlette", "uvicorn", "websockets") if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"the server needs {', '.join(missing)}", "server")


def _reason_of(error: OSError) -> str:
    """In words, without the number of the system."""
    reason = getattr(error, "reason", None) or error
    return str(getattr(reason, "strerror", None) or reason)
