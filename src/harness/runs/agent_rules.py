"""The rules of the settings that hold in a folder, with the agents that they name by their own names.

A rule may name an agent as every command does (`claude-code`, `Claude`). One that names none is an error: to pass over it
could allow what it was meant to deny.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from harness.agents.registry import all_names, load
from harness.approvals.rule_settings import WrittenRules, load_rules
from harness.approvals.rules import Rule
from harness.contracts.agent import Agent
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
