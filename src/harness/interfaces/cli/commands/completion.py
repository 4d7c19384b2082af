"""Print a completion script for a shell.

eval "$(harness completion bash)"
"""

from __future__ import annotations

import argparse

from harness.interfaces.cli.console import Console

SUMMARY = "print a completion script for a shell"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", help="bash, zsh, fish, tcsh …")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    del console
    from harness.errors import MissingExtra, UsageError
    from harness.interfaces.cli.output import write_text
    from harness.interfaces.cli.parser import whole_parser

    try:
        import shtab
    except ImportError as error:
        raise MissingExtra(
            "completion needs the package shtab", hint="pip install 'harness[completion]'"
        ) from error
    if arguments.shell not in shtab.SUPPORTED_SHELLS:
        shells = ", ".join(shtab.SUPPORTED_SHELLS)
        raise UsageError(f"unknown shell: {arguments.shell}", hint=f"expected one of: {shells}")
    parser = whole_parser()
    _offer_names(parser)
    write_text(shtab.complete(parser, shell=arguments.shell))
    return 0


def _offer_names(parser: argparse.ArgumentParser) -> None:
    """Give marked options the names that there are; while parsing, aliases are good too."""
    from harness.interfaces.cli import formats
    from harness.sources.registry import all_names

    choices = {"agents": all_names(), "formats": formats.spellings()}
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                _offer_names(below)
        elif (kind := getattr(action, "completes", "")) in choices:
            action.choices = choices[kind]
