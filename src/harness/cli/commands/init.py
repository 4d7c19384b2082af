"""Write a first settings file of your own: which agent, which model, and what agents may do without asking.

Three questions, each with an answer that Enter takes. Other settings in the file stay as they are; a --option is not asked for,
and --yes asks nothing. `harness config` shows and changes everything else.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NamedTuple

from harness import config
from harness.cli.console import Console, is_terminal
from harness.cli.parser import completes
from harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMMARY = "write a first settings file after three questions"
_TRIES = 3


class Proposal(NamedTuple):
    value: str
    """Empty: nothing is set."""
    words: str


PERMISSIONS = (
    Proposal("ask", "ask before an agent changes or runs anything"),
    Proposal("accept-edits", "the same, but files below the folder are edited without asking"),
    Proposal("full-access", "everything without asking"),
    Proposal("read-only", "only look"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    completes(add("-a", "--agent", metavar="NAME", help="the agent that runs when none is named"), "agents")
    add("-m", "--model", metavar="NAME", help="its model, by name or alias")
    help_text = f"what agents may do: {', '.join(proposal.value for proposal in PERMISSIONS)}"
    completes(add("--permissions", metavar="MODE", help=help_text), "permissions")
    add("-y", "--yes", action="store_true", help="ask nothing: take what would be proposed")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.config.own_file import OwnChange, change_own_file
    from harness.contracts.request import OWN_AGENT

    open_questions = [name for name in ("agent", "model", "permissions") if getattr(arguments, name) is None]
    if open_questions and not arguments.yes and not is_terminal(0):
        raise UsageError(
            "there is no terminal to ask on",
            hint="--yes takes what would be proposed, --agent NAME and others say it",
        )
    own = config.own_settings()
    agent = _agent(arguments, console)
    model = _model(arguments, console, agent)
    permissions = _permissions(arguments, console)
    changes = [
        OwnChange((key,) if "." not in key else tuple(key.split(".")), value)
        for key, value in (
            ("default_agent", agent),
            (f"agents.{agent}.model", model),
            ("default_permissions", permissions),
        )
        if value and own.value(key) != value
    ]
    path = change_own_file(changes) if changes else config.user_file()
    console.say(f"{path} {'is written' if changes else 'says so already'}.")
    shown_model = model or ("none yet" if agent == OWN_AGENT else "the agent's own")
    for key, value in (("agent", agent), ("model", shown_model), ("permissions", permissions)):
        console.say(f"  {key + ':':<13}{value}")
    has_model = agent != OWN_AGENT or bool(model or own.value(f"agents.{agent}.model"))
    console.say(
        f"Next: {'' if has_model else 'get a key, then '}harness chat, or harness run -p 'what to do'"
    )
    return 0


def _agent(arguments: argparse.Namespace, console: Console) -> str:
    from harness.agents.registry import load
    from harness.clients.installed_agents import installed
    from harness.contracts.request import OWN_AGENT

    if arguments.agent is not None:
        return load(arguments.agent).name
    choices = [
        Proposal(installation.agent.name, f"{installation.agent.title}, {installation.path}")
        for installation in installed()
    ]
    choices.append(Proposal(OWN_AGENT, "the built-in agent, with a model of your choice"))
    return _asked("Which agent runs when none is named?", choices, arguments, console)


def _model(arguments: argparse.Namespace, console: Console, agent: str) -> str:
    from harness.contracts.request import OWN_AGENT
    from harness.models.registry import LOCAL, PROVIDERS, SCRIPTED, usable

    if arguments.model is not None or agent != OWN_AGENT:
        return str(arguments.model or "")
    ready = [row for row in usable() if row.is_usable and row.provider != SCRIPTED]
    usual_models = {
        row.provider: PROVIDERS[row.provider].usual_model for row in ready if row.provider in PROVIDERS
    }
    choices = [
        Proposal(f"{row.provider}/{usual_models[row.provider]}", row.title)
        for row in ready
        if usual_models.get(row.provider)
    ]
    choices += [Proposal(row.reason, row.title) for row in ready if row.provider == LOCAL]
    if not choices:
        console.say(_why_no_model())
        return ""
    return _asked(
        "Which model does it ask? (or type provider/model)", choices, arguments, console, is_free=True
    )


def _why_no_model() -> str:
    from harness.models.registry import usable, usual_model

    if keyed := usual_model().partition("/")[0]:
        (reason,) = (row.reason for row in usable() if row.provider == keyed)
        return f"There is a key for {keyed}, but it cannot be used yet:\n  {reason}"
    return "There is no key of a model here yet: `harness models list` says which variables are read."


def _permissions(arguments: argparse.Namespace, console: Console) -> str:
    from harness.cli.run_request import permissions_of

    if arguments.permissions is not None:
        return permissions_of(arguments.permissions)
    return _asked("What may agents do without asking you?", PERMISSIONS, arguments, console)


def _asked(
    question: str,
    choices: Sequence[Proposal],
    arguments: argparse.Namespace,
    console: Console,
    *,
    is_free: bool = False,
) -> str:
    """The first one is proposed. `is_free`: another name counts, too. Raises UsageError after wrong answers."""
    if arguments.yes:
        return choices[0].value
    width = max(len(choice.value) for choice in choices)
    lines = [
        f"  {number}  {choice.value:<{width}}  {choice.words}" for number, choice in enumerate(choices, 1)
    ]
    console.say("\n".join([question, *lines]))
    for _ in range(_TRIES):
        console.put("[1] ")
        line = sys.stdin.readline()
        answer = line.strip()
        if not line:
            raise UsageError("the input has ended: nothing was written")
        if not answer:
            return choices[0].value
        if answer.isdecimal() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1].value
        if answer in [choice.value for choice in choices] or (is_free and "/" in answer):
            return answer
        console.say(f"type a number from 1 to {len(choices)}{', or provider/model' if is_free else ''}")
    raise UsageError("that is none of them: nothing was written")
