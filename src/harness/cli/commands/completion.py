"""Print a completion script for a shell.

eval "$(harness completion bash)"
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from harness.cli.console import Console
from harness.cli.output import write_text
from harness.cli.parser import completes, whole_parser
from harness.config.settings import PERMISSION_SPELLINGS, TABLE
from harness.errors import MissingExtra, UsageError

SUMMARY = "print a completion script for a shell"

_LIST_IDS = "harness sessions list --ids --limit 200 2>/dev/null"
_SESSION_IDS = {
    "bash": f'_harness_session_ids() {{ compgen -W "last $({_LIST_IDS})" -- "$1"; }}',
    "zsh": f"_harness_session_ids() {{ compadd last $({_LIST_IDS}) }}",
}
"""Asked of the program when it is needed: a script that listed them would be old the next minute."""
_COMPLETE_SESSION_IDS = {
    "bash": "_harness_session_ids",
    "zsh": "_harness_session_ids",
    "tcsh": f"`echo last; {_LIST_IDS}`",
    "fish": f"(echo last; {_LIST_IDS})",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "bash, zsh, fish, tcsh or powershell"
    completes(parser.add_argument("shell", metavar="SHELL", help=help_text), "shells")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    del console
    try:
        import shtab
    except ImportError as error:
        raise MissingExtra("completion needs the package shtab", "completion") from error
    if arguments.shell not in shtab.SUPPORTED_SHELLS:
        shells = ", ".join(shtab.SUPPORTED_SHELLS)
        raise UsageError(f"unknown shell: {arguments.shell}", hint=f"expected one of: {shells}")
    parser = whole_parser()
    _offer_names(parser, {**_choices(), "shells": shtab.SUPPORTED_SHELLS})
    _offer_paths(
        parser, {"FILE": shtab.FILE, "PATH": shtab.FILE, "SCRIPT": shtab.FILE, "DIR": shtab.DIRECTORY}
    )
    write_text(shtab.complete(parser, shell=arguments.shell, preamble=_SESSION_IDS.get(arguments.shell, "")))
    return 0


def _choices() -> dict[str, Sequence[str]]:
    """What options are marked with → the names that there are."""
    from harness.agents.registry import all_names
    from harness.clients import formats
    from harness.lab.scenario import scenario_names

    return {
        "agents": all_names(),
        "formats": formats.spellings(),
        "permissions": [*dict.fromkeys(PERMISSION_SPELLINGS.values())],
        "scenarios": scenario_names(),
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
        elif kind == "sessions":
            action.complete = _COMPLETE_SESSION_IDS  # type: ignore[attr-defined]


def _offer_paths(parser: argparse.ArgumentParser, kinds: Mapping[str, object]) -> None:
    """What an option is given is named once, by its metavar: where that is a file, files are offered."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                _offer_paths(below, kinds)
        elif (kind := kinds.get(str(action.metavar))) is not None:
            action.complete = kind  # type: ignore[attr-defined]
