"""From a request to a run in a sandbox runner: where it is, and which agent is wanted there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.log.hub import Hub
from harness.sources.launch import Launch
from harness.sources.remotes.runner_client import RunnerClient
from harness.sources.remotes.sandbox import RemoteRun
from harness.sources.request import OWN_AGENT
from harness.sources.worker import OnEnd

_WORDS = ("--runner", "--agent", "--cwd", "--token-file")


def start(launch: Launch, hub: Hub, on_end: OnEnd) -> RemoteRun:
    """The worker of a run. Raises UsageError when nobody says where the runner is."""
    words = parse(launch.request.extra_args)
    environ = launch.invocation.env
    url = words.get("--runner") or environ.get("HARNESS_RUNNER", "")
    if not url:
        raise UsageError("no runner was named", hint="give -- --runner URL, or set HARNESS_RUNNER")
    client = RunnerClient(url, _token(words, environ))
    agent = words.get("--agent") or environ.get("HARNESS_RUNNER_AGENT", "") or OWN_AGENT
    return RemoteRun(launch, hub, on_end, client, agent, words.get("--cwd", ""))


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


def _token(words: Mapping[str, str], environ: Mapping[str, str]) -> str:
    path = words.get("--token-file", "")
    if not path:
        return environ.get("HARNESS_RUNNER_TOKEN", "")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(500).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the token in {path}: {error}") from error
