"""From a request to a run in a sandbox runner: where it is, and which agent is wanted there."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from harness.errors import UsageError
from harness.log.hub import Hub
from harness.sources.process.launch import Launch
from harness.sources.remotes.places import RemotePlace, find, read_token, without_secrets
from harness.sources.remotes.sandbox import RemoteRun
from harness.sources.worker import OnEnd

_WORDS = ("--runner", "--agent", "--cwd", "--token-file")


def start(launch: Launch, hub: Hub, on_end: OnEnd) -> RemoteRun:
    """The worker of a run. Raises UsageError when nobody says where the runner is."""
    return RemoteRun(launch, hub, on_end, place_of(launch))


def place_of(launch: Launch) -> RemotePlace:
    """By an address or a name after `--`, else as the user has set it."""
    words, environ = parse(launch.request.extra_args), launch.invocation.env
    named = words.get("--runner", "")
    if "://" in named:
        token = environ.get("HARNESS_RUNNER_TOKEN", "")
        place = RemotePlace(name=without_secrets(named), url=named, token=token)
        place = replace(place, agent=environ.get("HARNESS_RUNNER_AGENT", "") or place.agent)
    else:
        place = find(named, environ, launch.request.cwd)
    if token_file := words.get("--token-file", ""):
        place = replace(place, token=read_token(token_file))
    return replace(
        place, agent=words.get("--agent", "") or place.agent, cwd=words.get("--cwd", "") or place.cwd
    )


def parse(words: Sequence[str]) -> dict[str, str]:
    """Raises UsageError for what means nothing here."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        if name not in _WORDS:
            raise UsageError(f"unknown option after --: {word}", hint=f"expected one of: {', '.join(_WORDS)}")
        found[name] = value if sign else next(rest, "")
        if not found[name]:
            raise UsageError(f"{name} needs a value")
    return found
