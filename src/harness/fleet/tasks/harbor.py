"""Tasks of Harbor: a folder with `task.toml`, `instruction.md`, `environment/` and `tests/test.sh`."""

from __future__ import annotations

import os
import re
import tomllib
from typing import Any

from harness.errors import UsageError
from harness.fleet.plans.plan import FleetTask
from harness.formats.fields import record_of, text_of

FILE = "task.toml"
_CANARY = re.compile(r"^\s*(<!--.*canary.*-->|#.*canary.*)\s*$", re.IGNORECASE)
_LOGS = "/logs/verifier"
_CHECK = f"rm -rf {_LOGS} && mkdir -p {_LOGS} && bash /tests/test.sh"
"""Where Harbor's tests are, and the folder of the file that says whether they passed. Both are outside of the workspace."""
_ABOUT = ("storage_mb", "build_timeout_sec")
_REFUSED: dict[str, str] = {
    "gpus": "GPUs",
    "gpu_types": "GPUs",
    "tpu": "TPUs",
    "mcp_servers": "MCP servers",
    "healthcheck": "a health check",
    "skills_dir": "skills of its own",
}
"""What an environment may demand that is not kept here."""
_KEPT = frozenset(
    {
        *("docker_image", "env", "workdir", "cpus", "memory_mb", "memory", "os", "storage", *_ABOUT),
        *("allow_internet", "network_mode", "allowed_hosts"),
    }
)
"""What an environment may say. Anything else that it demands would be left out without a word."""
_NO_NETWORK, _ANY_NETWORK = ("no-network", "none"), ("", "public", "default", "bridge")
_COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])I?B?", re.IGNORECASE)
_MB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


def read(folder: str) -> FleetTask:
    """Raises UsageError. What the task demands and cannot have is its `refusal`."""
    about = _read_toml(os.path.join(folder, FILE))
    environment, verifier = record_of(about.get("environment")), record_of(about.get("verifier"))
    inside = os.path.join(folder, "environment")
    image = text_of(environment.get("docker_image"))
    is_built = not image and os.path.isfile(os.path.join(inside, "Dockerfile"))
    has_container = bool(image) or is_built
    return FleetTask(
        id=text_of(record_of(about.get("task")).get("name")) or os.path.basename(folder),
        prompt=_instruction(folder, about),
        workspace=inside if not has_container and os.path.isdir(inside) else "",
        image=image,
        context=inside if is_built else "",
        check=_CHECK if has_container else "bash tests/test.sh",
        reward=f"{_LOGS}/reward" if has_container else "",
        files={"/tests" if has_container else "tests": os.path.join(folder, "tests")},
        env=_variables(environment.get("env")),
        check_env=_variables(verifier.get("env")),
        timeout_s=_seconds(record_of(about.get("agent")).get("timeout_sec")),
        check_timeout_s=_seconds(verifier.get("timeout_sec")) or 600.0,
        workdir=text_of(environment.get("workdir")) if has_container else "",
        cpus=_seconds(environment.get("cpus")) or 0.0,
        memory_mb=_seconds(environment.get("memory_mb")) or _megabytes(environment.get("memory")),
        needs_no_network=environment.get("allow_internet") is False
        or environment.get("network_mode") in _NO_NETWORK,
        refusal=_refusal(folder, about, has_container=has_container),
        source="harbor",
        metadata={
            **record_of(about.get("metadata")),
            **{name: environment[name] for name in _ABOUT if name in environment},
        },
    )


def _instruction(folder: str, about: dict[str, Any]) -> str:
    path = os.path.join(folder, "instruction.md")
    if about.get("steps") and not os.path.isfile(path):
        return "-"  # it is refused, with the reason
    return without_canary(read_text(path))


def _refusal(folder: str, about: dict[str, Any], *, has_container: bool) -> str:
    """What cannot be kept of a task's demands; empty: nothing."""
    environment, verifier = record_of(about.get("environment")), record_of(about.get("verifier"))
    inside = os.path.join(folder, "environment")
    if about.get("steps"):
        return "it has several steps"
    if any(os.path.isfile(os.path.join(inside, name)) for name in _COMPOSE):
        return "it needs services beside its container (docker-compose.yaml)"
    for name, what in _REFUSED.items():
        if environment.get(name) or about.get(name):
            return f"it needs {what} (`{name}`)"
    if unknown := sorted(name for name, value in environment.items() if value and name not in _KEPT):
        return f"it demands something of its environment that is not known here (`{unknown[0]}`)"
    if verifier.get("environment") or verifier.get("environment_mode") == "separate":
        return "its check needs an environment of its own"
    if text_of(environment.get("os")) not in {"", "linux"}:
        return f"it needs {environment['os']}"
    users = {text_of(record_of(about.get(part)).get("user")) for part in ("agent", "verifier")}
    if users - {"", "root"}:
        return f"it must be run as the user {min(users - {'', 'root'})}"
    if verifier.get("collect"):
        return "its check needs commands in services (`collect`)"
    if limited := _limited_network(about):
        return limited
    if not has_container and (need := _needs_container(folder, environment)):
        return f"it needs a container, since {need}, and names no image"
    return ""


def _limited_network(about: dict[str, Any]) -> str:
    """A container has one network, or none, for the agent and for the check."""
    parts = [record_of(about.get(part)) for part in ("environment", "agent", "verifier")]
    if any(part.get("allowed_hosts") for part in (about, *parts)):
        return "it needs a network with some hosts alone (`allowed_hosts`)"
    networks = [text_of(part.get("network_mode")) for part in parts]
    for network in networks:
        if network not in (*_NO_NETWORK, *_ANY_NETWORK):
            return f"it needs a network that is limited (`{network}`)"
    of_container, *of_phases = (network in _NO_NETWORK for network in networks)
    networks_given = [has_none for has_none, network in zip(of_phases, networks[1:], strict=True) if network]
    if any(has_none is not of_container for has_none in networks_given):
        return "it needs another network for the agent than for the check (`network_mode`)"
    return ""


def _megabytes(value: Any) -> float:
    """As older tasks say it: `2G`. Raises UsageError."""
    if value in (None, ""):
        return 0.0
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise UsageError(f"this is no amount of memory: {value!r}", hint="such as memory_mb = 2048")
    return float(match[1]) * _MB[match[2].upper()]


def _needs_container(folder: str, environment: dict[str, Any]) -> str:
    script = os.path.join(folder, "tests", "test.sh")
    if os.path.isfile(script) and "/logs/" in read_text(script):
        return "its verdict is written to /logs"
    limited = [name for name in ("workdir", "network_mode", "allow_internet") if name in environment]
    return f"it sets `{limited[0]}`" if limited else ""


def _variables(value: Any) -> dict[str, str]:
    return {name: value if isinstance(value, str) else str(value) for name, value in record_of(value).items()}


def without_canary(text: str) -> str:
    """Without the lines at the top that mark a text as not to be trained on."""
    lines = text.split("\n")
    while lines and (_CANARY.match(lines[0]) or not lines[0].strip()):
        lines.pop(0)
    return "\n".join(lines)


def read_text(path: str) -> str:
    """Raises UsageError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "it is not UTF-8") or str(error)
        raise UsageError(f"cannot read {path}: {reason}") from error


def _read_toml(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
