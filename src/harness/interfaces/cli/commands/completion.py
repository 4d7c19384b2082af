"""Print a completion script for a shell.

eval "$(harness completion bash)"
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from harness.interfaces.cli.console import Console
from harness.interfaces.cli.parser import completes

SUMMARY = "print a completion script for a shell"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "bash, zsh, fish, tcsh or powershell"
    completes(parser.add_argument("shell", metavar="SHELL", help=help_text), "shells")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    del console
    from harness.errors import MissingExtra, UsageError
    from harness.interfaces.cli.output import write_text
    from harness.interfaces.cli.parser import whole_parser

    try:
        import shtab
    except ImportError as error:
        raise MissingExtra("completion needs the package shtab", "completion") from error
    if arguments.shell not in shtab.SUPPORTED_SHELLS:
        shells = ", ".join(shtab.SUPPORTED_SHELLS)
        raise UsageError(f"unknown shell: {arguments.shell}", hint=f"expected one of: {shells}")
    parser = whole_parser()
    _offer_names(parser, {**_choices(), "shells": shtab.SUPPORTED_SHELLS})
    write_text(shtab.complete(parser, shell=arguments.shell))
    return 0


def _choices() -> dict[str, Sequence[str]]:
    """What options are marked with → the names that there are."""
    from harness.interfaces.cli import formats
    from harness.lab.scenario import scenario_names
    from harness.settings import PERMISSION_SPELLINGS, TABLE
    from harness.sources.registry import all_names

    return {
        "agents": all_names(),
        "formats": formats.spellings(),
        "permissions": [*dict.fromkeys(PERMISSION_SPELLINGS.values())],
        "scenarios": scenario_names(),
        "sessions": ["last"],
        "settings": [setting.key for setting in TABLE if "<" not in setting.key],
    }


def _offer_names(parser: argparse.ArgumentParser, choices: Mapping[str, Sequence[str]]) -> None:
    """Give marked options the names that there are; while parsing, aliases are good too."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                _offer_names(below, choices)
        elif (kind := getattr(action, "completes", "")) in choices:
            action.choices = choices[kind]
