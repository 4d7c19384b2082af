"""The command line of OpenCode and its relatives: `run --format json`, the prompt on stdin."""

from __future__ import annotations

from harness.sources.agent import CommandLine
from harness.sources.formats.command_line import flags_of
from harness.sources.request import Request

FLAGS = {"model": "--model", "resume": "--session", "continue_last": "--continue"}
_READ_ONLY_AGENT = "plan"
_READ_ONLY_RULES = '{"edit":"deny","bash":"deny"}'
"""That agent may still run commands, and where it is missing another takes its place; so no agent
may edit files or run commands at all."""


def run_command(
    request: Request,
    *,
    approving: tuple[str, ...],
    options: tuple[str, ...],
    permission_variable: str,
    env: dict[str, str],
) -> CommandLine:
    """`approving`: what approves everything; `options`: whatever this version takes besides.

    A prompt among the arguments would reach the model in quotation marks; stdin leaves it as it is.
    """
    args = ["run", "--format", "json", *options]
    env = dict(env)
    match request.permissions:
        case "full-access":
            args += approving
        case "read-only":
            args += ["--agent", _READ_ONLY_AGENT]
            env[permission_variable] = _READ_ONLY_RULES
        case "agent-default":
            pass
    args += [*flags_of(request, FLAGS), *request.extra_args]
    return CommandLine(args=tuple(args), env=env, stdin=request.prompt.encode("utf-8", "replace"))
