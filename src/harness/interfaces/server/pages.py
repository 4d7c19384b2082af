"""The page: files that were built into the package, sent as they are."""

from __future__ import annotations

import os

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

_FOLDER = os.path.join(os.path.dirname(__file__), "page")
_ABSENT = """\
Harness is running, but its page is not in this copy of the program.

It is built with `make web` (which needs node), and is part of every installed package.
Programs can use the server as it is: see /openapi.json.
"""
_FOR_EVER = "public, max-age=31536000, immutable"
"""The names of assets contain a sum of their content."""


class Pages:
    """Contract: sends nothing that was not in its folder when it was made."""

    def __init__(self, folder: str = _FOLDER) -> None:
        self._folder = folder
        self._files = frozenset(_files(folder))

    def routes(self) -> list[Route]:
        return [Route("/{path:path}", self._page, methods=["GET"])]

    async def _page(self, request: Request) -> Response:
        path = request.path_params["path"]
        path = "favicon.svg" if path == "favicon.ico" else path  # browsers ask for it by themselves
        if "index.html" not in self._files:
            return PlainTextResponse(_ABSENT, 200 if not path else 404)
        if path in self._files:
            caching = _FOR_EVER if path.startswith("assets/") else "no-cache"
            return FileResponse(os.path.join(self._folder, path), headers={"cache-control": caching})
        if "." in path.rpartition("/")[2] or path.startswith("api/"):
            return PlainTextResponse("no such file\n", 404)
        # Every other address is a place within the page.
        return FileResponse(os.path.join(self._folder, "index.html"), headers={"cache-control": "no-cache"})


def _files(folder: str) -> list[str]:
    return [
        os.path.relpath(os.path.join(place, name), folder).replace(os.sep, "/")
        for place, _folders, names in os.walk(folder)
        for name in names
    ]
