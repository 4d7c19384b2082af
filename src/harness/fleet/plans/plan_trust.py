"""What a plan would run on this machine, besides the agents: for those who did not write it."""

from __future__ import annotations

from hashlib import sha256

from harness.fleet.plans.plan import FleetPlan
from harness.system import exact_json


def commands_of(plan: FleetPlan) -> list[str]:
    """A line for each command and program that the plan names; empty: it runs nothing of its own."""
    lines: dict[str, None] = {}
    for task in plan.tasks:
        where = f" in a container of {task.image}" if task.image else ""
        if task.context:
            lines[f"build an image from {task.context}"] = None
        for what, command in (("setup", task.setup), ("check", task.check)):
            if command:
                lines[f"{what}{where}: {command}"] = None
    for variant in plan.variants:
        for what, words in (("program", variant.binary), ("arguments", " ".join(variant.extra_args))):
            if words:
                lines[f"{what} of {variant.name}: {words}"] = None
        for path in variant.mcp:
            lines[f"MCP servers of {variant.name}: {path}"] = None
        if variant.tape:
            lines[f"what the answers recorded in {variant.tape} call for, sealed"] = None
    for there, here in plan.container.mounts.items():
        lines[f"mount {here} as {there}"] = None
    return list(lines)


def digest_of_plan(plan: FleetPlan) -> str:
    """Changes with everything that the plan would run, the hidden files and the workspaces included."""
    content = [sorted(task.digest for task in plan.tasks), plan.variants, plan.container]
    return sha256(exact_json.encode(content, order="sorted")).hexdigest()
