"""Where sandbox runners are: those of the user's own settings by name, and the one of the environment.

A project cannot name one: what is asked there runs with the token, and sees the whole conversation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from harness import config
from harness.contracts.request import OWN_AGENT
from harness.errors import UsageError

OF_THE_ENVIRONMENT = "environment"
"""The name of the runner that `HARNESS_RUNNER` gives the address of."""
_HOW = "name one in [runners.NAME] of the user's config.toml, or set HARNESS_RUNNER"


class RemotePlace(msgspec.Struct, frozen=True, kw_only=True):
    """One runner, and what is wanted there."""

    name: str
    url: str
    token: str = ""
    agent: str = OWN_AGENT
    cwd: str = ""


def names(environ: Mapping[str, str], directory: str = "") -> list[str]:
    """Of all runners that can be named."""
    place_names = list(_tables(environ, directory))
    if _is_address(environ.get("HARNESS_RUNNER", "")):
        place_names.append(OF_THE_ENVIRONMENT)
    return place_names


def find(name: str, environ: Mapping[str, str], directory: str = "") -> RemotePlace:
    """The runner of that name; empty: the one of the environment, or the only one. Raises UsageError."""
    name = name or _usual(environ, directory)
    if name == OF_THE_ENVIRONMENT:
        url = environ.get("HARNESS_RUNNER", "")
        agent = environ.get("HARNESS_RUNNER_AGENT", "") or OWN_AGENT
        return RemotePlace(name=name, url=url, token=environ.get("HARNESS_RUNNER_TOKEN", ""), agent=agent)
    table = _tables(environ, directory).get(name)
    if table is None:
        known_places = ", ".join(names(environ, directory))
        raise UsageError(
            f"no runner is called {name[:100]!r}", hint=f"there are: {known_places}" if known_places else _HOW
        )
    if "url" not in table:
        raise UsageError(f"the runner {name} has no address", hint=f"set runners.{name}.url")
    token_file = table.get("token_file", "")
    return RemotePlace(
        name=name,
        url=table["url"],
        token=read_token(token_file) if token_file else environ.get("HARNESS_RUNNER_TOKEN", ""),
        agent=table.get("agent") or OWN_AGENT,
        cwd=table.get("cwd") or "",
    )


def described(environ: Mapping[str, str], directory: str = "") -> list[dict[str, str]]:
    """For clients that choose one: never the token."""
    places = []
    for name in names(environ, directory):
        table = _tables(environ, directory).get(name, {})
        if name == OF_THE_ENVIRONMENT:
            table = {"url": environ["HARNESS_RUNNER"], "agent": environ.get("HARNESS_RUNNER_AGENT", "")}
        url, agent = table.get("url", ""), table.get("agent") or OWN_AGENT
        places.append(
            {"name": name, "agent": agent, "url": without_secrets(url), "cwd": table.get("cwd") or ""}
        )
    return places


def read_token(path: str) -> str:
    """Raises UsageError."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read(500).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the token in {path}: {getattr(error, 'strerror', None) or error}"
        ) from error


def without_secrets(url: str) -> str:
    """An address that may be shown: without a user, a password or a query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


def _usual(environ: Mapping[str, str], directory: str) -> str:
    usual_place = environ.get("HARNESS_RUNNER", "")
    if usual_place:
        return OF_THE_ENVIRONMENT if _is_address(usual_place) else usual_place
    place_names = names(environ, directory)
    if len(place_names) == 1:
        return place_names[0]
    if place_names:
        raise UsageError("no runner was named", hint=f"there are: {', '.join(place_names)}")
    raise UsageError("no runner was named", hint=f"give -- --runner URL, or {_HOW}")


def _is_address(text: str) -> bool:
    return "://" in text


def _tables(environ: Mapping[str, str], directory: str) -> dict[str, dict[str, str]]:
    return config.load(directory or os.getcwd(), environ).tables("runners")
