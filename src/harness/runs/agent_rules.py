"""The rules of the settings that hold in a folder, with the agents that they name by their own names.

A rule may name an agent as every command does (`claude-code`, `Claude`). One that names none is an error: to pass over it
could allow what it was meant to deny.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from harness.agents.registry import all_names, load
from harness.approvals.globs import matches
from harness.approvals.rule_settings import WrittenRules, load_rules
from harness.approvals.rules import Rule
from harness.contracts.agent import Agent
from harness.contracts.request import Permissions
from harness.errors import BadConfig, BrokenPlugin, UnknownAgent, UsageError


def rules_in(directory: str) -> WrittenRules:
    """Raises BadConfig for a rule that is wrong."""
    rules = load_rules(directory)
    return rules._replace(rules=[*map(_with_its_agent, rules.rules)])


def rules_for(agent: str, directory: str) -> tuple[Rule, ...]:
    """Those that speak of this agent. Raises BadConfig for a rule that is wrong."""
    return tuple(of_agent(rules_in(directory).rules, agent))


def of_agent(rules: Iterable[Rule], agent: str) -> list[Rule]:
    return [rule for rule in rules if rule.agent in ("", agent)]


def _with_its_agent(rule: Rule) -> Rule:
    if not rule.agent:
        return rule
    try:
        agent = load(rule.agent)
        _require_spelled(rule, agent)
        return replace(rule, agent=agent.name)
    except BrokenPlugin:  # it cannot run either
        return rule
    except BadConfig:
        raise
    except (UnknownAgent, UsageError) as error:
        raise BadConfig(
            f"{rule.place}: unknown agent in a rule: {rule.agent}", hint=f"one of {', '.join(all_names())}"
        ) from error


def _require_spelled(rule: Rule, agent: Agent) -> None:
    """Raises BadConfig for a tool that the agent has in other letters (`bash` of Claude Code): it would never match."""
    tools = agent.two_way.tools.tools if agent.two_way is not None and agent.two_way.tools is not None else {}
    alike = [name for name in tools if name.casefold() == rule.tool.casefold()]
    if alike and rule.tool not in tools:
        raise BadConfig(f"{rule.place}: {agent.title} has no tool {rule.tool}", hint=f"it is {alike[0]}")


def require_asking_to_read(
    agent: Agent, rules: Iterable[Rule], permissions: Permissions, whose: str = "your rules"
) -> None:
    """Raises UsageError where one of these rules speaks of reading, which the agent does without asking."""
    if not agent.reads_unasked or permissions == "agent-default":
        return
    rule_found = next(
        (rule for rule in rules if rule.answer != "allow" and _is_about_reading(rule, agent)), None
    )
    if rule_found is not None:
        raise UsageError(
            f"{agent.title} cannot be held to {whose} ({rule_found.words}): it reads files below its folder "
            "without asking",
            hint="use another agent, or see `harness permissions`",
        )


def _is_about_reading(rule: Rule, agent: Agent) -> bool:
    """Whether a rule speaks of files that are read, by their paths or by a tool that reads."""
    if rule.command or rule.server or rule.category not in ("", "read"):
        return False
    tools = agent.two_way.tools if agent.two_way is not None else None
    readers = tools.names_of("read") if tools is not None else ()
    return not rule.tool or any(matches(rule.tool, name) for name in readers)
