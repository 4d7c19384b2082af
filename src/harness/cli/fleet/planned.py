"""From the options of `harness fleet run` to a fleet: its plan read, checked and stored."""

from __future__ import annotations

import argparse
import os

from msgspec.structs import replace

from harness.agents.registry import load
from harness.cli import preferences
from harness.cli.console import Console
from harness.cli.fleet.trusted_plans import require_trust
from harness.cli.run_request import model_of
from harness.clients import installed_agents
from harness.config import Settings
from harness.errors import HarnessError, UsageError
from harness.fleet.fleet import Fleet, create_fleet, fleet_at
from harness.fleet.planning import completed, plan_of_file, plan_of_paths
from harness.fleet.plans.plan import FleetPlan, Variant


def fleet_of(arguments: argparse.Namespace, settings: Settings, console: Console) -> Fleet:
    """Raises UsageError for an invalid plan."""
    plan = checked(plan_of(arguments, settings), arguments, settings, console)
    if not is_known(plan, arguments):
        require_trust(plan, arguments.paths[0], console, is_granted=arguments.trust)
    return create_fleet(plan, arguments.name or plan.name, arguments.store)


def tried(arguments: argparse.Namespace, settings: Settings, console: Console) -> FleetPlan:
    """The plan, checked, and nothing created. Raises UsageError."""
    plan = checked(plan_of(arguments, settings), arguments, settings, console)
    return replace(plan, name=arguments.name or plan.name)


def is_known(plan: FleetPlan, arguments: argparse.Namespace) -> bool:
    """Whether there is a fleet of that name with the same cases: it was trusted when it was created.

    Raises UsageError for a name that no fleet can have.
    """
    existing = fleet_at(arguments.name or plan.name, arguments.store)
    try:
        return existing.plan.cases.keys() == plan.cases.keys() and existing.plan.variants == plan.variants
    except HarnessError:
        return False


def stored(plan: FleetPlan, arguments: argparse.Namespace, settings: Settings, console: Console) -> Fleet:
    """Check the plan, and create the fleet or find the one that has it."""
    plan = checked(plan, arguments, settings, console)
    return create_fleet(plan, arguments.name or plan.name, arguments.store)


def checked(
    plan: FleetPlan, arguments: argparse.Namespace, settings: Settings, console: Console
) -> FleetPlan:
    """As it can be carried out. Raises UsageError."""
    is_local = getattr(arguments, "engine", "local") == "local"
    plan = completed(plan, lambda variant: _resolved(variant, settings, console), is_local=is_local)
    return replace(
        plan,
        directory=os.getcwd(),
        sessions=arguments.store or preferences.sessions_directory(settings),
        redact=settings.value("log.redact"),
    )


def plan_of(arguments: argparse.Namespace, settings: Settings) -> FleetPlan:
    """The plan file, or the tasks, with the options of the command line."""
    paths: list[str] = arguments.paths
    if not paths:
        raise UsageError(
            "no plan was named", hint="give a plan (PLAN.toml) or folders of tasks, with -a AGENT"
        )
    is_file = len(paths) == 1 and paths[0].endswith(".toml")
    plan = plan_of_file(paths[0]) if is_file else plan_of_paths(paths)
    variants = tuple(variant_of(words, settings) for words in arguments.agent) or plan.variants
    options = {
        "variants": with_folder_settings(variants, arguments),
        "repeats": arguments.repeats or plan.repeats,
        "budget_usd": arguments.budget_usd or plan.budget_usd,
        "retries": plan.retries if arguments.retries is None else arguments.retries,
    }
    limits = {
        "timeout_s": arguments.timeout,
        "run_budget_usd": arguments.max_budget_usd,
        "max_turns": arguments.max_turns,
    }
    set_limits = {name: value for name, value in limits.items() if value is not None}
    return replace(plan, **options, limits=replace(plan.limits, **set_limits))


def variant_of(words: str, settings: Settings) -> Variant:
    """`claude`, or `claude/opus` with a model."""
    name, _, model = words.partition("/")
    agent = load(name)
    model = model or settings.model_for(installed_agents.names_of(agent))
    return Variant(name=words, agent=agent.name, model=_script_path(model))


def with_folder_settings(variants: tuple[Variant, ...], arguments: argparse.Namespace) -> tuple[Variant, ...]:
    """`--folder-settings`, for those that say nothing of it themselves."""
    use = arguments.folder_settings
    return tuple(replace(variant, folder_settings=variant.folder_settings or use) for variant in variants)


def _script_path(model: str) -> str:
    kind, _, path = model.partition("/")
    return f"{kind}/{os.path.abspath(path)}" if kind == "scripted" and os.path.isfile(path) else model


def _resolved(variant: Variant, settings: Settings, console: Console) -> Variant:
    """With the model, program and arguments that the user's settings give this agent."""
    agent = load(variant.agent)
    spellings = installed_agents.names_of(agent)
    return replace(
        variant,
        agent=agent.name,
        model=model_of(variant.model, agent, settings, console),
        binary=variant.binary or settings.binary_for(spellings),
        extra_args=(*settings.extra_args(spellings), *variant.extra_args),
    )
