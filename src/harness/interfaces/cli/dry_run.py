"""`harness run --dry-run`: what would be started, spelled out."""

from __future__ import annotations

import re

from harness.interfaces.cli.output import write_text
from harness.log.redact.redactor import redact_text, secrets_in
from harness.sources.process.launch import Launch
from harness.sources.process.version_probe import parse_version

_SAFE = re.compile(r"[A-Za-z0-9\-_./:=@]+")
_LONGEST_STDIN = 2000


def show(launch: Launch, cwd: str) -> None:
    """`cwd`: as the user gave it."""
    command = launch.agent.command(launch.request, parse_version(launch.version))
    lines = [
        f"Binary: {launch.binary or 'none: it runs in this process'}",
        f"Args:   {' '.join(map(quoted, launch.invocation.argv[1:]))}",
    ]
    if launch.invocation.stdin:
        lines.append(f"Stdin:  {_shown(launch.invocation.stdin)}")
    for title, env in (("Env:", command.env), ("User env:", launch.request.env)):
        if env:
            lines += [title, *(f"  {name}={value}" for name, value in env.items())]
    lines.append(f"Cwd:    {cwd or '.'}")
    write_text(redact_text("\n".join(lines) + "\n", secrets_in(launch.invocation.env)))


def _shown(stdin: bytes) -> str:
    """What the program is told; only how much it is when nobody would read it here."""
    return quoted(stdin.decode("utf-8", "replace")) if len(stdin) <= _LONGEST_STDIN else f"{len(stdin)} bytes"


def quoted(argument: str) -> str:
    """Safe to paste into a shell."""
    if _SAFE.fullmatch(argument):
        return argument
    return "'" + argument.replace("'", "'\\''") + "'"
