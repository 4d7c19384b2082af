"""The arguments of `bash`, as models write them, in our own words."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from harness.contracts.tool_arguments import Arguments, take

DEFAULT_TIMEOUT_S = 120.0
LONGEST_TIMEOUT_S = 3600.0
WORKDIR = "workdir"
ENVIRONMENT = "environment"
"""Not the model's: which variables of earlier calls hold (`KeptShell.environment`), for those who decide about the call."""
_FOLDERS = ("cwd", "dir", "directory", "dir_path", "working_directory")
_IN_MS = ("timeout_ms", "timeoutMs", "yield_time_ms")
_IN_S = ("timeout_secs", "timeout_s", "timeoutSeconds", "timeout_seconds")
_SHELL_NAMES = ("bash", "sh", "zsh", "dash")
_AT_THE_END = re.compile(r"(?<![&|<>\\])&\s*\Z")


class BashArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("cmd", "commands", "script", "code", "command_line", "input"), "command"),
        **dict.fromkeys(("run_in_background", "is_background"), "background"),
        **dict.fromkeys(_FOLDERS, WORKDIR),
    }
    command: Annotated[str, Meta(min_length=1, description="the command line")]
    timeout: Annotated[
        float, Meta(gt=0, le=LONGEST_TIMEOUT_S, description="seconds after which it is ended")
    ] = DEFAULT_TIMEOUT_S
    workdir: Annotated[str, Meta(description="the directory for this call alone")] = ""
    background: Annotated[
        bool,
        Meta(
            description="return at once; it goes on, without a timeout, until it is stopped or this conversation ends"
        ),
    ] = False


def taken(arguments: dict[str, Any]) -> BashArguments:
    """Models write milliseconds, a command as a list of words, and `&` for the background. Raises ToolFailure."""
    order = take(BashArguments, _with_a_timeout(_with_a_line(arguments)), "bash")
    line = _AT_THE_END.sub("", order.command).rstrip()
    if line and line != order.command.rstrip():
        return replace(order, command=line, background=True)
    return order


def _with_a_line(arguments: dict[str, Any]) -> dict[str, Any]:
    lines = arguments.get("commands")
    if isinstance(lines, list) and lines and all(isinstance(line, str) for line in lines):
        arguments = {**arguments, "commands": "\n".join(lines)}
    for name in ("command", *BashArguments.aliases):
        words = arguments.get(name)
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            is_shell = (
                len(words) == 3 and words[1] in ("-c", "-lc") and os.path.basename(words[0]) in _SHELL_NAMES
            )
            arguments = {**arguments, name: words[2] if is_shell else shlex.join(words)}
    return arguments


def _with_a_timeout(arguments: dict[str, Any]) -> dict[str, Any]:
    if "timeout" not in arguments:
        in_ms = next((arguments[name] for name in _IN_MS if name in arguments), None)
        in_s = next((arguments[name] for name in _IN_S if name in arguments), None)
        if (value := _number(in_ms)) is not None:
            return {**arguments, "timeout": value / 1000}
        return arguments if (value := _number(in_s)) is None else {**arguments, "timeout": value}
    if (value := _number(arguments["timeout"])) is None:
        return arguments
    # No command may take that many seconds: it is milliseconds, as most agents count.
    wanted_s = value / 1000 if value > LONGEST_TIMEOUT_S else value
    timeout_s = min(wanted_s, LONGEST_TIMEOUT_S) if wanted_s > 0 else DEFAULT_TIMEOUT_S
    return {**arguments, "timeout": timeout_s}


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
