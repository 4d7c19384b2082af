"""`/api/login`: login and logout of one browser, logout of all browsers. See `access/credentials.py` for the rules."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.errors import UsageError
from harness.server.access.browser_keys import browser_name
from harness.server.access.credentials import Access, Login
from harness.server.access.host_names import HostNames
from harness.server.access.responses import (
    NotFound,
    Unauthorized,
    json_response,
    read_body,
    with_errors,
)

PATH = "/api/login"
PUBLIC = (("GET", PATH), ("POST", PATH))


class LoginRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Either the code of a link, or the proof of the key that came with an earlier one."""

    code: str = ""
    key_id: str = ""
    nonce: str = ""
    proof: str = ""
    """HMAC-SHA256 with the key, in hexadecimal digits, of the origin under which the browser has opened the page, a line
    feed and the nonce.
    """


class LoginKey(msgspec.Struct, frozen=True):
    id: str
    secret: str
    """In hexadecimal digits; to be stored where no page can read it."""


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    credential: str
    key: LoginKey | None = None


class Nonce(msgspec.Struct, frozen=True):
    nonce: str


class Link(msgspec.Struct, frozen=True):
    link: str


class Logins(msgspec.Struct, frozen=True):
    logins: list[Login]


class LoginApi:
    def __init__(self, access: Access, names: HostNames) -> None:
        self._access = access
        self._names = names

    def routes(self) -> list[Route]:
        return [
            Route(PATH, with_errors(self._nonce), methods=["GET"]),
            Route(PATH, with_errors(self._log_in), methods=["POST"]),
            Route(PATH, with_errors(self._log_out), methods=["DELETE"]),
            Route("/api/logins", with_errors(self._list), methods=["GET"]),
            Route("/api/logins", with_errors(self._log_out_all), methods=["DELETE"]),
            Route("/api/logins/{id}", with_errors(self._log_out_one), methods=["DELETE"]),
            Route("/api/links", with_errors(self._new_link), methods=["POST"]),
        ]

    async def _nonce(self, request: Request) -> Response:
        del request
        return json_response(Nonce(self._access.nonce()))

    async def _log_in(self, request: Request) -> Response:
        body = await read_body(request, LoginRequest)
        if body.code:
            if not self._access.redeem(body.code):
                raise Unauthorized(
                    "this link was used already, is too old, or is not one of ours",
                    hint="`harness serve --link` prints another",
                )
            credential, name, secret = self._access.log_in(
                browser_name(request.headers.get("user-agent", ""))
            )
            return json_response(LoggedIn(credential=credential, key=LoginKey(name, secret)))
        if not body.key_id:
            raise UsageError("neither the code of a link nor a key was given", hint="see /openapi.json")
        credential = self._access.log_in_again(body.key_id, body.nonce, body.proof, self._names.origins)
        if not credential:
            raise Unauthorized(
                "this browser is logged out",
                hint="open a link of `harness serve --link`; after an update of Harness, reload the page first",
            )
        return json_response(LoggedIn(credential=credential))

    async def _log_out(self, request: Request) -> Response:
        self._access.log_out(request.scope["harness.grant"])
        return Response(status_code=204)

    async def _list(self, request: Request) -> Response:
        return json_response(Logins(self._access.logins(request.scope["harness.grant"])))

    async def _log_out_one(self, request: Request) -> Response:
        if not self._access.log_out_one(request.path_params["id"]):
            raise NotFound("no browser is logged in under this id", hint="GET /api/logins lists them")
        return Response(status_code=204)

    async def _log_out_all(self, request: Request) -> Response:
        del request
        self._access.log_out_all()
        return Response(status_code=204)

    async def _new_link(self, request: Request) -> Response:
        del request
        return json_response(Link(f"{self._names.url}/login?token={self._access.new_link_code()}"), 201)
