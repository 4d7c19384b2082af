"""The command line with argparse: errors are exceptions, and a command is loaded when it is chosen."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from harness.cli.console import screen_width
from harness.cli.output import write_text
from harness.config.setting_kinds import LEAST_WINDOW
from harness.errors import UsageError

_COMMANDS = "commands"
"""The folder with one file per command. Its files are found by name: they are above this module, and use it."""
_HIGHEST_PORT = 65_535
_PORT = f"a port between 0 and {_HIGHEST_PORT}"
EXIT_CODES = """\
Exit codes of `run`: 0 completed, 1 failed or limit exceeded, 2 wrong usage,
75 refused at a limit of `harness budget`,
124 timed out or stalled, 126 did not start, 127 agent not found,
130 interrupted (143 by SIGTERM, 129 by SIGHUP), 141 output was closed.
"""
DESCRIPTION = "Run coding agents, record everything they do, and view it in any format."
EPILOG = f"""\
examples:
  harness run --agent NAME --prompt "explain this project"
  harness run -a NAME -p "fix the tests" --format ndjson | jq .
  harness sessions list
  harness sessions show last

{EXIT_CODES}
`harness COMMAND --help` shows the options of a command.
"""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=min(110, screen_width(os.environ)))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """`-a, --agent NAME`: what is to be put in is named once."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Names stay whole: what is broken at its hyphen cannot be copied."""
        import textwrap

        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """Contract: raises UsageError for what cannot be parsed; only `--help` ends the program by itself."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _HelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> Any:
        raise UsageError(message, hint=f"`{self.prog} --help` shows the options")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """A wrong action gets the same error as a wrong command: its name, and the one that was probably meant."""
        is_action = isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 # it has no other name
        if is_action and value not in (choices := [*(action.choices or ())]):
            raise UsageError(f"unknown action: {value}", hint=similar(value, choices, self.prog))
        super()._check_value(action, value)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """An empty value is probably a variable that was not set: it is an error."""
        if action.option_strings and "" in arg_strings:
            raise UsageError(
                f"{action.option_strings[-1]} was given an empty value", hint="leave it out, or give a value"
            )
        return super()._get_values(action, arg_strings)

    def print_help(self, file: Any = None) -> None:
        del file
        write_text(self.format_help())


def names() -> list[str]:
    """All commands, without importing any."""
    return sorted(
        entry[:-3].replace("_", "-")
        for entry in os.listdir(os.path.join(os.path.dirname(__file__), _COMMANDS))
        if entry.endswith(".py") and not entry.startswith("_")
    )


def load(name: str) -> ModuleType:
    return import_module(f"{__package__}.{_COMMANDS}.{name.replace('-', '_')}")


def parser_of(name: str) -> Parser:
    """The parser of one command alone: the others stay unloaded."""
    module = load(name)
    usage = getattr(module, "USAGE", None)
    parser = Parser(prog=f"harness {name}", description=module.__doc__, usage=usage)
    _fill(parser, module)
    return parser


def action_of(parser: Parser, action: str) -> Parser:
    """The parser of one of a command's actions."""
    (added,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    action_parser: Parser = added.choices[action]
    return action_parser


def overview() -> str:
    """The output of `harness` without a command."""
    first = ("run", "sessions")
    ordered = sorted(names(), key=lambda name: (name not in first, name))
    commands_text = "\n".join(f"  {name:<12}{load(name).SUMMARY}" for name in ordered)
    return f"Usage: harness COMMAND [OPTIONS]\n\n{DESCRIPTION}\n\ncommands:\n{commands_text}\n\n{EPILOG}"


def whole_parser() -> Parser:
    """Everything at once, for shell completion."""
    parser = Parser(prog="harness", description=DESCRIPTION)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    added = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", prog="harness")
    for name in names():
        module = load(name)
        _fill(added.add_parser(name, help=module.SUMMARY, description=module.__doc__), module)
    return parser


def _fill(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    module.add_arguments(parser)
    add_shared(parser)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """What every command takes."""
    group = parser.add_argument_group("messages")
    group.add_argument(
        "-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help="print more on standard error"
    )
    group.add_argument(
        "--color",
        nargs="?",
        const="always",
        default=argparse.SUPPRESS,
        choices=("auto", "always", "never"),
        metavar="WHEN",
        help="auto, always or never (default: auto: on a terminal)",
    )
    group.add_argument(
        "--no-color",
        dest="color",
        action="store_const",
        const="never",
        default=argparse.SUPPRESS,
        help="the same as --color=never",
    )


def add_actions(
    parser: argparse.ArgumentParser, actions: dict[str, str]
) -> dict[str, argparse.ArgumentParser]:
    """Fill in a module's `ACTIONS`: name → what it does. Without one, `DEFAULT_ACTION` is carried out."""
    added = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", prog=parser.prog)
    parsers = {
        name: added.add_parser(name, help=text, description=f"{text[:1].upper()}{text[1:]}.")
        for name, text in actions.items()
    }
    for action in parsers.values():
        add_shared(action)
    return parsers


def positive(text: str) -> float:
    """A number above zero."""
    number = _number(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"a number above 0 was expected, not {text!r}")
    return number


_UNITS_S = {"h": 3600, "m": 60, "s": 1}


def seconds(text: str) -> float:
    """Seconds above zero: `90`, `90s`, `1.5m`, `2h`, `1h30m`."""
    parts = re.findall(r"([\d.]+)([hms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return positive(text)
    return positive(str(sum(_number(number) * _UNITS_S[unit] for number, unit in parts)))


def at_least_zero(text: str) -> float:
    number = _number(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"a number, 0 or more, was expected, not {text!r}")
    return number


def count(text: str) -> int:
    """A whole number above zero."""
    return _whole(text, 1, "a whole number above 0")


def window(text: str) -> int:
    """How many tokens a model can read."""
    return _whole(text, LEAST_WINDOW, f"a whole number of tokens, {LEAST_WINDOW} or more,")


def count_or_zero(text: str) -> int:
    return _whole(text, 0, "a whole number, 0 or more,")


def port(text: str) -> int:
    """A port of TCP; 0: any that is free."""
    number = _whole(text, 0, _PORT)
    if number > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{_PORT} was expected, not {text!r}")
    return number


def similar(name: str, known_names: list[str], prog: str) -> str:
    """The hint for a name that there is not."""
    from difflib import get_close_matches

    close = get_close_matches(name, known_names, n=1)
    return f"did you mean `{prog} {close[0]}`?" if close else f"expected one of: {', '.join(known_names)}"


def completes(action: argparse.Action, what: str) -> None:
    """Mark an option whose values a shell may complete; `commands/completion.py` knows what with."""
    action.completes = what  # type: ignore[attr-defined]


def parse(name: str, words: Sequence[str], *, verbose: bool, color: str) -> argparse.Namespace:
    """The arguments of one command. What comes after `--` is for the agent, and not looked at."""
    module = load(name)
    words, extra = _split(words)
    parser = parser_of(name)
    default = getattr(module, "DEFAULT_ACTION", "")
    if default and not _names_action(words, module.ACTIONS):
        words = [default, *words]
    if extra and not getattr(module, "TAKES_EXTRA", False):
        raise UsageError(f"`harness {name}` takes nothing after --", hint=f"unexpected: {' '.join(extra)}")
    namespace = argparse.Namespace(command=name, verbose=verbose, color=color, extra=extra)
    if getattr(module, "INTERMIXED", False):
        return parser.parse_intermixed_args(words, namespace)
    return parser.parse_args(words, namespace)


def _names_action(words: list[str], actions: Iterable[str]) -> bool:
    """Whether an action was meant, be it a wrong one; options alone mean the default."""
    if not words:
        return False
    return not words[0].startswith("-") or not {*actions, "-h", "--help"}.isdisjoint(words)


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    position = words.index("--") if "--" in words else len(words)
    return list(words[:position]), list(words[position + 1 :])


def _whole(text: str, least: int, expected: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise argparse.ArgumentTypeError(f"{expected} was expected, not {text!r}")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number was expected, not {text!r}") from None


def add_at_limit(add: Callable[..., object], *, can_hand_over: bool = False) -> None:
    """What happens at a full window, for every command that starts an agent."""
    help_text = "when a window of the subscription is full: you continue (ask), or it does when the window opens (resume)"
    choices: tuple[str, ...] = ("ask", "resume")
    if can_hand_over:
        help_text += ", or another agent does (hand-over; `limits.hand_over` names them)"
        choices += ("hand-over",)
    add("--at-limit", choices=choices, default="", metavar="|".join(choices), help=help_text)
    add(
        "--max-windows", type=count, metavar="N", help="with --at-limit resume: so many in a row (default: 2)"
    )
