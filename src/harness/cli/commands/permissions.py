"""What agents may do without asking: the rules for all of them, and what would be asked.

A rule allows, asks about or denies tools, commands, paths or servers. It holds for the built-in agent and for every
agent program that can be asked, in `run`, `chat`, the page and fleets; rules that deny also in full access. Your own
rules are in config.toml; a project's harness.toml can only ask and deny.

    harness permissions add deny --command "git push"
    harness permissions test -a codex "git push origin main"
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from harness.cli.console import Console
from harness.cli.output import write_json, write_text
from harness.cli.parser import add_actions
from harness.errors import UsageError
from harness.formatting.escapes import single_line

if TYPE_CHECKING:
    from harness.approvals.call import ProposedCall
    from harness.approvals.rules import Rule

SUMMARY = "rules for what agents may do: list, test, add, remove"
DEFAULT_ACTION = "list"
ACTIONS = {
    "list": "show the rules that hold here, and where each is written",
    "test": "say whether a command or a call would be allowed, asked about or denied, and why",
    "add": "add a rule to your own settings",
    "remove": "remove one of your own rules, by its number in the list",
}
_KEYS = {
    "command": "a command by its first words, such as `git push`",
    "path": "a glob: from the folder, from ~/, or absolute",
    "tool": "a tool by its own name; a glob",
    "server": "an MCP server; a glob",
    "category": "read, edit, execute, network, mcp or unknown",
    "agent": "only for this agent",
    "reason": "what is said when it is denied or asked about",
}
"""What a rule can name, as in `approvals/rule_settings.py`, and what each is."""
_MODES = ("ask", "accept-edits", "read-only", "plan", "full-access")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    for name in ("list", "test"):
        actions[name].add_argument("--json", action="store_true", help="print JSON")
    test = actions["test"].add_argument
    test("line", metavar="COMMAND", nargs="?", default="", help="a command line")
    test("-a", "--agent", default="", help="the agent that would ask")
    test("--permissions", choices=_MODES, default="ask", help="the mode of the run (default: ask)")
    test("--read", metavar="PATH", default="", help="instead of a command: reading this path")
    test("--edit", metavar="PATH", default="", help="instead of a command: editing this path")
    test("--tool", metavar="NAME", default="", help="the name of the tool, for rules that name one")
    add = actions["add"].add_argument
    add("answer", choices=("allow", "ask", "deny"))
    for name, words in _KEYS.items():
        add(f"--{name}", default="", help=words)
    actions["remove"].add_argument("number", type=int)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.approvals.rule_settings import add_rule, remove_rule

    match arguments.action:
        case "add":
            entry = {"answer": arguments.answer, **{name: getattr(arguments, name) for name in _KEYS}}
            console.say(f"harness: {add_rule(_with_known_agent(entry))} was changed")
        case "remove":
            console.say(f"harness: {remove_rule(arguments.number)} was changed")
        case "test":
            return _test(arguments)
        case _:
            return _list(arguments, console)
    return 0


def _with_known_agent(entry: dict[str, str]) -> dict[str, str]:
    """Raises UnknownAgent: a rule for a misspelt agent would protect nothing."""
    from harness.agents.registry import load

    return {**entry, "agent": load(entry["agent"]).name} if entry["agent"] else entry


def _list(arguments: argparse.Namespace, console: Console) -> int:
    from harness.runs.agent_rules import rules_in

    rules = rules_in(os.getcwd())
    if arguments.json:
        write_json({"rules": [_data(rule) for rule in rules.rules]})
        return 0
    numbers = iter(range(1, len(rules.rules) + 1))
    lines = [
        f"{next(numbers) if rule.source == 'user' else '-':>3}  {single_line(rule.words)}  ({single_line(rule.place)})"
        for rule in rules.rules
    ]
    if lines:
        write_text("\n".join(lines) + "\n")
    else:
        console.say('no rule is set: harness permissions add deny --command "git push"')
    for rule in rules.ignored:
        console.say(f"{single_line(rule.place)}: a project's file cannot allow: {single_line(rule.words)}")
    return 0


def _test(arguments: argparse.Namespace) -> int:
    from harness.agents.registry import load
    from harness.approvals.approver import Approver
    from harness.approvals.call import MODES
    from harness.approvals.free_commands import free_programs
    from harness.approvals.work_folder import WorkFolder
    from harness.runs.agent_rules import rules_in

    folder = WorkFolder(root=os.path.realpath(os.getcwd()), programs=free_programs(os.environ))
    agent = load(arguments.agent).name if arguments.agent else ""
    approver = Approver(MODES[arguments.permissions], folder, rules_in(os.getcwd()).rules, agent=agent)
    decision = approver.decide([_call(arguments)])
    if arguments.json:
        write_json({"answer": decision.answer, "why": decision.why})
    else:
        write_text(f"{decision.answer}: {decision.why}\n")
    return 0


def _call(arguments: argparse.Namespace) -> ProposedCall:
    from harness.approvals.call import ProposedCall

    call_options = [name for name in ("line", "read", "edit") if getattr(arguments, name)]
    if len(call_options) != 1:
        raise UsageError(
            "name one command, --read PATH or --edit PATH", hint='harness permissions test "git push"'
        )
    if arguments.line:
        tool = arguments.tool or "bash"
        return ProposedCall(
            tool=tool, category="execute", command=arguments.line, input={"command": arguments.line}
        )
    act = call_options[0]
    path = getattr(arguments, act)
    is_read = act == "read"
    return ProposedCall(
        tool=arguments.tool or act,
        category="read" if is_read else "edit",
        paths=(path,),
        input={"path": path},
    )


def _data(rule: Rule) -> dict[str, Any]:
    fields = {name: getattr(rule, name) for name in _KEYS if getattr(rule, name)}
    return {"answer": rule.answer, **fields, "source": rule.source, "place": rule.place}
