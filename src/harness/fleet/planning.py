"""From a plan file and a command line to a plan that can be carried out: everything that can be wrong is found here,
before anything starts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from harness.agents.registry import load
from harness.errors import UsageError
from harness.fleet.container import ContainerFailed, prepare_image
from harness.fleet.plans.digests import files_digest, path_digest, task_digest
from harness.fleet.plans.plan import (
    FleetCase,
    FleetPlan,
    FleetTask,
    RunLimits,
    Variant,
    variables_in,
)
from harness.fleet.plans.plan_file import PlanText
from harness.fleet.tasks.load import load_tasks
from harness.models.registry import SCRIPTED
from harness.models.scripted import open_script
from harness.runs.launch import dropped_options, find_binary, not_found
from harness.runs.replay_request import recorded_tape
from harness.workspace.git_calls import GitCalls, GitFailed

_TAPE = "/tape"
"""No file of a workspace is called so."""
_DROPPED_HINT = "leave it out: the runs would be the same without it"


def plan_of_file(path: str, name: str = "") -> FleetPlan:
    """The plan in a TOML file. Its tasks have no digests yet. Raises UsageError."""
    text = PlanText(path)
    plan_fields = text.plan
    tasks = text.own_tasks()
    for number, pattern in enumerate(plan_fields.tasks):
        try:
            tasks += load_tasks(os.path.join(text.folder, pattern), _folder(text, plan_fields.repositories))
        except UsageError as error:
            raise text.error(("tasks", number), error.words) from error
    variants = text.variants()
    for number, variant in enumerate(variants):
        for field, reason in dropped_fields(variant).items():
            raise text.error(("agents", number, field), f"{reason}; {_DROPPED_HINT}")
    return FleetPlan(
        name=name or plan_fields.name or os.path.splitext(os.path.basename(path))[0],
        tasks=tuple(tasks),
        variants=tuple(variants),
        repeats=plan_fields.repeats,
        retries=plan_fields.retries,
        retry_wait_s=text.retry_wait_s(),
        budget_usd=plan_fields.budget_usd,
        providers=plan_fields.providers,
        limits=text.limits(),
        resources=plan_fields.resources,
        container=text.container(),
        workspaces=plan_fields.workspaces,
        seed=plan_fields.seed,
    )


def plan_of_paths(paths: Sequence[str], name: str = "") -> FleetPlan:
    """The plan of the tasks at these paths, without agents. Raises UsageError."""
    tasks = [task for path in paths for task in load_tasks(path, "")]
    usual = os.path.basename(os.path.abspath(paths[0])) if paths else ""
    return FleetPlan(name=name or usual, tasks=tuple(tasks), variants=(), limits=RunLimits())


def completed(plan: FleetPlan, resolve_model: Callable[[Variant], Variant], *, is_local: bool) -> FleetPlan:
    """Check the plan, and fix what its tasks are made of. `is_local`: the agents run on this machine."""
    _require_some(plan)
    variants = tuple(map(resolve_model, plan.variants))
    for variant in variants:
        for reason in dropped_fields(variant).values():
            raise UsageError(f"agent {variant.name!r}: {reason}", hint=_DROPPED_HINT)
    _require_known_providers(plan)
    _require_fitting_budget(plan)
    _require_scripts(variants)
    _require_tapes(plan.tasks, variants)
    if is_local and not all(map(_needs_container, plan.tasks)):
        _require_agents(variants)
    digests: dict[str, str] = {}
    tasks = tuple(_with_image(task, digests) for task in plan.tasks)
    refused = [
        f"{task.id}: {reason}" for task in tasks if (reason := _refusal(task, plan, variants, is_local))
    ]
    if refused:
        more = f"\n  … and {len(refused) - 10} more" if len(refused) > 10 else ""
        raise UsageError(
            f"{len(refused)} of {len(plan.tasks)} tasks cannot be run here:\n  "
            + "\n  ".join(refused[:10])
            + more,
            hint="leave them out of `tasks`",
        )
    variants = tuple(
        replace(variant, digest=files_digest(_files_of(variant), digests)) for variant in variants
    )
    return replace(plan, tasks=tuple(_fixed(task, digests) for task in tasks), variants=variants)


def _files_of(variant: Variant) -> dict[str, str]:
    """What its digest is of."""
    return {**variant.added, **({_TAPE: variant.tape} if variant.tape else {})}


def _require_tapes(tasks: Sequence[FleetTask], variants: Sequence[Variant]) -> None:
    """A run parts from a tape of another agent, or of another prompt, at its first call."""
    for variant in variants:
        if variant.fork_at is not None and not variant.tape:
            raise UsageError(
                f"agent {variant.name!r}: fork_at counts the answers of a tape", hint="name a `tape`"
            )
        if not variant.tape:
            continue
        recording = recorded_tape(variant.tape)
        if recording.start.agent != load(variant.agent).name:
            raise UsageError(
                f"agent {variant.name!r}: its tape was recorded with {recording.start.agent}",
                hint="a tape is played by the agent that made it",
            )
        for task in tasks:
            if task.prompt.strip() != recording.prompts[0].strip():
                raise UsageError(
                    f"agent {variant.name!r}: its tape was recorded with another prompt than that of {task.id}",
                    hint="give the task the prompt of the tape",
                )


def dropped_fields(variant: Variant) -> dict[str, str]:
    """What of a variant its agent would not get, by field: then it would not be what is compared."""
    task = FleetTask(id="-", prompt="-")
    request = FleetCase("", task, variant, 0).request(
        FleetPlan(name="-", tasks=(), variants=()), os.getcwd(), {}
    )
    return {name: sentence.removesuffix(": dropped") for name, sentence in dropped_options(request).items()}


def _require_known_providers(plan: FleetPlan) -> None:
    """A limit of a provider that no agent has would hold for nothing."""
    slots = {variant.slots_of for variant in plan.variants}
    for name in plan.providers:
        if name not in slots:
            raise UsageError(
                f"`providers` has {name!r}, which is the provider of no agent",
                hint=f"the agents have: {', '.join(sorted(slots))}",
            )


def _require_fitting_budget(plan: FleetPlan) -> None:
    cap = plan.limits.run_budget_usd
    if plan.budget_usd is not None and cap is not None and cap > plan.budget_usd:
        raise UsageError(
            f"a run may cost ${cap:g} and the whole fleet ${plan.budget_usd:g}: no case could be started",
            hint="raise budget_usd, or lower run_budget_usd",
        )


def _require_scripts(variants: Sequence[Variant]) -> None:
    """A script that is missing or wrong would be an error of every case."""
    for variant in variants:
        kind, _, path = variant.model.partition("/")
        if kind != SCRIPTED or load(variant.agent).work is None:
            continue
        try:
            open_script(path)
        except UsageError as error:
            raise UsageError(f"agent {variant.name!r}: {error.message}", hint=error.hint) from error


def _require_agents(variants: Sequence[Variant]) -> None:
    for variant in variants:
        agent = load(variant.agent)
        if agent.work is None and not find_binary(agent, variant.binary, os.environ):
            raise not_found(agent)


def _needs_container(task: FleetTask) -> bool:
    return bool(task.image or task.context)


def _require_some(plan: FleetPlan) -> None:
    if not plan.tasks:
        raise UsageError("the plan has no tasks", hint="add a [[task]], or name folders of tasks")
    if not plan.variants:
        raise UsageError("the plan has no agents", hint="add `agents = [ … ]`, or name them with -a")
    for what, names in (
        ("task", [task.id for task in plan.tasks]),
        ("agent", [variant.name for variant in plan.variants]),
    ):
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise UsageError(f"{times} {what}s are called {name!r}", hint="give each one a name of its own")


def _with_image(task: FleetTask, digests: dict[str, str]) -> FleetTask:
    """An image that is built has a name that changes with what it is built from."""
    if not task.context:
        return task
    return replace(task, image=f"localhost/harness-task:{path_digest(task.context, digests)[:16]}")


def _refusal(task: FleetTask, plan: FleetPlan, variants: Sequence[Variant], is_local: bool) -> str:
    """Why a task cannot be run here; empty when it can."""
    if task.refusal:
        return task.refusal
    if task.needs_no_network and plan.container.network != "none":
        return (
            "it must have no network, and an agent in its container could not reach a model then;"
            ' network = "none" in [container] of the plan does it nevertheless'
        )
    missing_variables = [
        name for value in task.check_env.values() for name in variables_in(value) if name not in os.environ
    ]
    if missing_variables:
        return f"its check needs the variable {missing_variables[0]}, which is not set"
    if task.image and (reason := _container_refusal(task, variants, is_local)):
        return reason
    if task.workspace and not os.path.isdir(task.workspace):
        return f"there is no folder {task.workspace}"
    missing = [here for here in task.files.values() if not os.path.exists(here)]
    return f"there is no {missing[0]}" if missing else ""


def _container_refusal(task: FleetTask, variants: Sequence[Variant], is_local: bool) -> str:
    for variant in variants:
        if load(variant.agent).work is not None:
            return (
                f"it needs a container, and the agent {variant.agent} is not a program that could run in one"
            )
        if variant.home == "user":
            return (
                f'it needs a container, where there is no home of the user; {variant.name} has home = "user"'
            )
        if variant.gateway_options is not None:
            return f"it needs a container, from where the gateway of {variant.name} cannot be reached"
    if not is_local:
        return ""  # the machines where it runs have the image, or not
    try:
        prepare_image(task)
    except (ContainerFailed, UsageError) as error:
        what = f"the image built from {task.context}" if task.context else f"the container image {task.image}"
        return f"it needs {what}: {error.message if isinstance(error, UsageError) else error}"
    return ""


def _fixed(task: FleetTask, digests: dict[str, str]) -> FleetTask:
    """With its commit as a hash, and its digest."""
    if not task.workspace:
        return replace(task, digest=task_digest(task, "", digests))
    if not task.commit:
        return replace(task, digest=task_digest(task, path_digest(task.workspace, digests), digests))
    key = f"{task.workspace}\0{task.commit}"
    if key not in digests:
        digests[key] = _commit_and_tree(task)
    commit, tree = digests[key].split()
    return replace(task, commit=commit, digest=task_digest(task, tree, digests))


def _commit_and_tree(task: FleetTask) -> str:
    if not os.path.lexists(os.path.join(task.workspace, ".git")):
        raise UsageError(
            f"task {task.id}: {task.workspace} is not the top of a Git repository",
            hint="name its top folder, or leave `commit` out to copy the folder as it is",
        )
    git = GitCalls(task.workspace)
    question = ("rev-parse", "--verify", "--end-of-options")
    try:
        ids = [git.ask(*question, f"{task.commit}^{{{kind}}}") for kind in ("commit", "tree")]
    except GitFailed as error:
        raise UsageError(
            f"task {task.id}: {task.workspace} has no commit {task.commit!r}: {error.message}",
            hint="name a commit, branch or tag of that Git repository",
        ) from error
    return " ".join(name.decode("ascii").strip() for name in ids)


def _folder(text: PlanText, name: str) -> str:
    return os.path.normpath(os.path.join(text.folder, os.path.expanduser(name))) if name else ""
