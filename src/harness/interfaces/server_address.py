"""Where a server listens and is found: the options for it, and the private files with its address and its token."""

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
from typing import Any

from harness.config import data_directory
from harness.errors import HarnessError, MissingExtra, UsageError
from harness.log.private_files import make_private_directory, replace_private

TOKEN_VARIABLE = "HARNESS_SERVER_TOKEN"  # noqa: S105
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TIMEOUT_S = 10.0


def add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: loopback only)"
    )
    parser.add_argument(
        "--allow-remote",
        action="append",
        default=[],
        metavar="NAME[:PORT]",
        help="let other machines in, under this host name: anyone with the token can then run commands as you, "
        "and without a proxy that encrypts, everything crosses the network in the clear (may be repeated). PORT: "
        "where they reach it, if that is neither 80, 443 nor the port it listens on",
    )
    parser.add_argument(
        "--public-url",
        default="",
        metavar="URL",
        help="the public address, when it is behind a proxy: https://harness.example.com",
    )


def add_token(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "where the token is, or is to be made (default: in your data directory; HARNESS_SERVER_TOKEN has the token "
        "itself)"
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
    """What lets browsers in again."""
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
    """When the server ends, unless another one has begun."""
    if _read(_address_path()) == url:
        with suppress(OSError):
            os.unlink(_address_path())


def own_server(token_file: str = "") -> tuple[str, str]:
    """The address and the token of this machine's server. Raises HarnessError.

    The file with the address stays behind when a server is killed, and anything may listen there by then: before it
    is sent the token, it must prove that it knows it.
    """
    url, token = address_of(""), token_of(token_file)
    challenge = token_hex(16)
    try:
        with opened(url, f"/healthz?challenge={challenge}", {}, None) as answer:
            proof = json.loads(answer.read(1_000)).get("proof")
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        raise HarnessError(
            f"no server answers at {url}: {reason}", hint="`harness serve` starts one"
        ) from error
    except (ValueError, AttributeError):
        proof = None
    if not isinstance(proof, str) or not compare_digest(
        proof.encode(), proof_of(token, challenge, url).encode()
    ):
        raise HarnessError(
            f"what listens at {url} is not the server of this machine, or has another token",
            hint="`harness serve` starts one",
        )
    return url, token


def proof_of(token: str, challenge: str, url: str) -> str:
    """What only a program with the token can answer. It names the address, so that no other program can have it
    answered by the server.
    """
    return hmac.digest(token.encode(), f"harness serve\n{url}\n{challenge}".encode(), "sha256").hex()


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
        raise UsageError(f"there is no token in {path or token_path()}", hint="`harness serve` creates it")
    return token


def newest_session(url: str, token: str) -> str:
    """Its id; empty when there is none yet. Raises HarnessError when no server of ours answers there."""
    sessions = _asked(url, token, "/api/sessions?limit=1", "sessions")
    return str(sessions[0]["id"]) if sessions else ""


def new_link(url: str, token: str) -> str:
    """That lets a browser in. Raises HarnessError when no server of ours answers there."""
    return str(_asked(url, token, "/api/links", "link", body=b"{}"))


def opened(
    url: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout_s: float = _TIMEOUT_S
) -> Any:
    """The answer of a server. A proxy is not asked for one on this machine. Raises OSError, ValueError."""
    from urllib.parse import urlsplit
    from urllib.request import ProxyHandler, Request, build_opener

    request = Request(f"{url}{path}", body, dict(headers))  # noqa: S310 # the user named it
    proxies = [ProxyHandler({})] if urlsplit(url).hostname in _LOOPBACK else []
    return build_opener(*proxies).open(request, timeout=timeout_s)


def _asked(url: str, token: str, path: str, wanted: str, body: bytes | None = None) -> Any:
    from urllib.error import HTTPError, URLError

    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        with opened(url, path, headers, body) as answer:
            return json.load(answer)[wanted]
    except HTTPError as error:
        raise HarnessError(
            f"the server refused the request ({error.code})", hint="check the token"
        ) from error
    except (ValueError, LookupError, TypeError) as error:
        raise HarnessError(
            f"what answers at {url} is not `harness serve`", hint="check the address"
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


def require_server() -> None:
    """Raises MissingExtra."""
    missing = [name for name in ("starlette", "uvicorn", "websockets") if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"the server needs {', '.join(missing)}", "server")
