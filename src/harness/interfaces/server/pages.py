"""The page: files that were built into the package, sent as they are.

They are open to everybody, for they tell nothing but that Harness is here; what they show, they ask for with what the
browser has to be let in.
"""

from __future__ import annotations

import os

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from harness.interfaces.server.responses import NotFound, error_answer

_FOLDER = os.path.join(os.path.dirname(__file__), "page")
_ABSENT = """\
Harness is running, but its page is not in this copy of the program.

It is built with `make web` (which needs node), and is part of every installed package.
Programs can use the server as it is: see /openapi.json.
"""
_FOR_EVER = "public, max-age=31536000, immutable"
"""The names of assets contain a sum of their content."""
_PLACES = ("", "login")
"""Every other place within the page is behind a `#`, where no server sees it."""


class PageFiles:
    """Contract: sends nothing that was not in its folder when it was made."""

    def __init__(self, folder: str = _FOLDER) -> None:
        self._folder = folder
        self._files = frozenset(_files(folder))

    def routes(self) -> list[Route]:
        return [Route("/{path:path}", self._page, methods=["GET"])]

    def has(self, path: str) -> bool:
        """Whether this address shows something of the page."""
        name = path.removeprefix("/")
        return name in _PLACES or name in self._files or name == "favicon.ico"

    async def _page(self, request: Request) -> Response:
        path = request.path_params["path"]
        path = "favicon.svg" if path == "favicon.ico" else path  # browsers ask for it by themselves
        if path in _PLACES and "index.html" not in self._files:
            return PlainTextResponse(_ABSENT)
        if path in _PLACES:
            path = "index.html"
        if path not in self._files:
            return error_answer(NotFound(f"nothing is here: /{path[:100]}", hint="see /openapi.json"))
        caching = _FOR_EVER if path.startswith("assets/") else "no-cache"
        return FileResponse(os.path.join(self._folder, path), headers={"cache-control": caching})


def _files(folder: str) -> list[str]:
    return [
        os.path.relpath(os.path.join(place, name), folder).replace(os.sep, "/")
        for place, _folders, names in os.walk(folder)
        for name in names
    ]
