"""A request as the command line of an agent: its table of flags, and which of them its version has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from harness.contracts.agent import CommandLine, Version
from harness.contracts.request import Request


def has(version: Version, since: Version) -> bool:
    """Whether a version has what came with `since`; one that is not known is taken for the latest."""
    return not version or version >= since


def numbers_of(version: str) -> Version:
    return tuple(map(int, re.findall(r"\d{1,9}", version)))


def flags_of(request: Request, flags: Mapping[str, str]) -> list[str]:
    """What was asked for, in the order of the table. A flag that ends with `=` has its value with it.

    A session that is named goes before the latest one.
    """
    limits = request.limits
    wishes = {
        "model": request.model,
        "system_prompt": request.system_prompt,
        "append_system_prompt": request.append_system_prompt,
        "effort": request.effort,
        "resume": request.resume,
        "session_id": request.session_id,
        "max_turns": "" if limits.max_turns is None else str(limits.max_turns),
        "max_budget_usd": "" if limits.max_budget_usd is None else _decimal(limits.max_budget_usd),
    }
    args: list[str] = []
    for name, flag in flags.items():
        if name == "continue_last":
            if request.continue_last and not ("resume" in flags and request.resume):
                args.append(flag)
        elif value := wishes[name]:
            args += [flag + value] if flag.endswith("=") else [flag, value]
    return args


def argument_of(argv: Sequence[str], *flags: str) -> str:
    """What one of these flags was given, as the next word or after `=`; empty when none of them is there."""
    for word, following in zip(argv, [*argv[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name in flags:
            return value if equals else following
    return ""


def no_program(request: Request, version: Version) -> CommandLine:
    """Of an agent that works in this process: there is nothing to be started."""
    del request, version
    return CommandLine(args=())


def _decimal(amount: float) -> str:
    """Without an exponent, which small amounts would have: not every program reads one."""
    return f"{amount:.10f}".rstrip("0").rstrip(".")
