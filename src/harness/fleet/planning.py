"""From a plan file and a command line to a plan that can be carried out: everything that can be wrong is found here,
before anything starts.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from harness.errors import UsageError
from harness.fleet.container import ContainerFailed, prepare_image
from harness.fleet.plan import FleetPlan, FleetTask, RunLimits, Variant
from harness.fleet.plan_file import PlanText
from harness.fleet.tasks.load import load_tasks
from harness.sources.process.launch import find_binary, not_found
from harness.sources.registry import load
from harness.sources.workspace.git_calls import GitCalls, GitFailed

# Digests of tasks: the same task has the same digest on any machine, a changed one has another.


_BLOCK_BYTES = 1 << 20
_NOT_CONTENT = ("workspace", "commit", "context", "files", "digest", "metadata", "source")
"""Fields of a task whose digest is that of what they name, or that change nothing."""


def task_digest(task: FleetTask, workspace: str, known: dict[str, str]) -> str:
    """`workspace`: the digest of what the agent works on. `known`: digests of paths, so that each is read once."""
    fields = {
        name: value for name, value in msgspec.to_builtins(task).items() if name not in _NOT_CONTENT and value
    }
    content = [fields, workspace, files_digest(task.files, known)]
    return sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:16]


def files_digest(files: Mapping[str, str], known: dict[str, str]) -> str:
    """Of files by their path in the workspace; empty when there are none."""
    content = {there: path_digest(here, known) for there, here in files.items()}
    return sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:16] if content else ""


def path_digest(path: str, known: dict[str, str]) -> str:
    """Of a file, or of a folder with everything in it. Raises UsageError."""
    if path not in known:
        try:
            known[path] = _digest(path)
        except OSError as error:
            raise UsageError(f"cannot read {error.filename or path}: {error.strerror}") from error
    return known[path]


def _digest(path: str) -> str:
    total = sha256()
    for relative, mode in _entries(path):
        full = os.path.join(path, relative) if relative else path
        total.update(b"%s\0%o\0" % (os.fsencode(relative), stat.S_IMODE(mode) & 0o111))
        if stat.S_ISLNK(mode):
            total.update(os.fsencode(os.readlink(full)))
        elif stat.S_ISREG(mode):
            total.update(_file_digest(full))
    return total.hexdigest()[:32]


def _file_digest(path: str) -> bytes:
    content = sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            content.update(block)
    return content.digest()


def _entries(path: str) -> list[tuple[str, int]]:
    """Everything below a path, sorted, with its mode; the path itself is the empty name."""
    found = [("", os.lstat(path).st_mode)]
    folders = [""] if stat.S_ISDIR(found[0][1]) else []
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(path, folder)) as entries:
            for entry in entries:
                name = os.path.join(folder, entry.name)
                mode = entry.stat(follow_symlinks=False).st_mode
                found.append((name, mode))
                if stat.S_ISDIR(mode):
                    folders.append(name)
    return sorted(found)


def plan_of_file(path: str, name: str = "") -> FleetPlan:
    """The plan in a TOML file. Its tasks have no digests yet. Raises UsageError."""
    text = PlanText(path)
    given = text.plan
    tasks = text.own_tasks()
    for number, pattern in enumerate(given.tasks):
        try:
            tasks += load_tasks(os.path.join(text.folder, pattern), _folder(text, given.repositories))
        except UsageError as error:
            raise text.error(("tasks", number), error.words) from error
    return FleetPlan(
        name=name or given.name or os.path.splitext(os.path.basename(path))[0],
        tasks=tuple(tasks),
        variants=tuple(text.variants()),
        repeats=given.repeats,
        retries=given.retries,
        retry_wait_s=text.retry_wait_s(),
        budget_usd=given.budget_usd,
        providers=given.providers,
        limits=text.limits(),
        resources=given.resources,
        container=text.container(),
        workspaces=given.workspaces,
        seed=given.seed,
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
    if is_local and not all(map(_needs_container, plan.tasks)):
        _require_agents(variants)
    known: dict[str, str] = {}
    tasks = tuple(_with_image(task, known) for task in plan.tasks)
    refused = [f"{task.id}: {reason}" for task in tasks if (reason := _refusal(task, variants, is_local))]
    if refused:
        more = f"\n  … and {len(refused) - 10} more" if len(refused) > 10 else ""
        raise UsageError(
            f"{len(refused)} of {len(plan.tasks)} tasks cannot be run here:\n  "
            + "\n  ".join(refused[:10])
            + more,
            hint="leave them out of `tasks`",
        )
    variants = tuple(replace(one, digest=files_digest(one.added, known)) for one in variants)
    return replace(plan, tasks=tuple(_fixed(task, known) for task in tasks), variants=variants)


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
        ("agent", [one.name for one in plan.variants]),
    ):
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise UsageError(f"{times} {what}s are called {name!r}", hint="give each one a name of its own")


def _with_image(task: FleetTask, known: dict[str, str]) -> FleetTask:
    """An image that is built has a name that changes with what it is built from."""
    if not task.context:
        return task
    return replace(task, image=f"localhost/harness-task:{path_digest(task.context, known)[:16]}")


def _refusal(task: FleetTask, variants: Sequence[Variant], is_local: bool) -> str:
    """Why a task cannot be run here; empty when it can."""
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
    if not is_local:
        return ""  # the machines where it runs have the image, or not
    try:
        prepare_image(task)
    except (ContainerFailed, UsageError) as error:
        what = f"the image built from {task.context}" if task.context else f"the container image {task.image}"
        return f"it needs {what}: {error.message if isinstance(error, UsageError) else error}"
    return ""


def _fixed(task: FleetTask, known: dict[str, str]) -> FleetTask:
    """With its commit as a hash, and its digest."""
    if not task.workspace:
        return replace(task, digest=task_digest(task, "", known))
    if not task.commit:
        return replace(task, digest=task_digest(task, path_digest(task.workspace, known), known))
    key = f"{task.workspace}\0{task.commit}"
    if key not in known:
        known[key] = _commit_and_tree(task)
    commit, tree = known[key].split()
    return replace(task, commit=commit, digest=task_digest(task, tree, known))


def _commit_and_tree(task: FleetTask) -> str:
    if not os.path.lexists(os.path.join(task.workspace, ".git")):
        raise UsageError(
            f"task {task.id}: {task.workspace} is not the top of a Git repository",
            hint="name its top folder, or leave `commit` out to copy the folder as it is",
        )
    git = GitCalls(task.workspace)
    question = ("rev-parse", "--verify", "--end-of-options")
    try:
        found = [git.ask(*question, f"{task.commit}^{{{kind}}}") for kind in ("commit", "tree")]
    except GitFailed as error:
        raise UsageError(
            f"task {task.id}: {task.workspace} has no commit {task.commit!r}: {error.message}",
            hint="name a commit, branch or tag of that Git repository",
        ) from error
    return " ".join(name.decode("ascii").strip() for name in found)


def _folder(text: PlanText, name: str) -> str:
    return os.path.normpath(os.path.join(text.folder, os.path.expanduser(name))) if name else ""
