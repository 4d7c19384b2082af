"""Reads a plan: a TOML file, with mistakes reported by file, line and reason.

name = "cart"
tasks = ["tasks/*"]                        # folders and files of tasks
agents = [{ name = "opus", agent = "claude", model = "opus" }]

[[task]]                                   # a task of the plan's own
id = "cart"
prompt = "The check fails. Fix it."
workspace = "."
check = "npm test"
"""

from __future__ import annotations

import os
import re
import tomllib
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict, replace

from harness.errors import UsageError
from harness.fleet.plans.plan import (
    CaseResources,
    ContainerSettings,
    FleetTask,
    RunLimits,
    Variant,
    WorkspaceKind,
)
from harness.models.script_file import Path, Positions

_PATH_IN_REASON = re.compile(r" - at `\$([^`]*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[(\.\.\.)\]")
_UNKNOWN_FIELD = re.compile(r"unknown field `(\w+)`")
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smh]?)")
_HINT = "see docs/fleet.md"

Duration = str | float
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class TaskTable(_Strict, frozen=True, kw_only=True):
    """`[[task]]`."""

    id: Name
    prompt: Name | Annotated[str, msgspec.Meta(min_length=1)]
    workspace: str = ""
    commit: str = ""
    setup: str = ""
    check: str = ""
    image: str = ""
    score_file: str = ""
    files: dict[str, str] = {}
    env: dict[str, str] = {}
    timeout: Duration = ""
    setup_timeout: Duration = "30m"
    check_timeout: Duration = "10m"


class LimitsTable(_Strict, frozen=True, kw_only=True):
    """`[limits]`."""

    run_budget_usd: Positive | None = None
    timeout: Duration = ""
    first_output: Duration = ""
    inactivity: Duration = ""
    max_turns: Count | None = None


class VariantTable(Variant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of `agents`."""

    name: str = ""


class PlanFile(_Strict, frozen=True, kw_only=True):
    """Everything that a plan may say. What is left out may come from the command line."""

    name: str = ""
    tasks: list[str] = []
    task: list[TaskTable] = []
    agents: list[VariantTable] = []
    repeats: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 2
    retry_wait: Duration = "15s"
    budget_usd: Positive | None = None
    providers: dict[str, Count] = {}
    limits: LimitsTable = LimitsTable()
    resources: CaseResources = CaseResources()
    container: ContainerSettings = ContainerSettings()
    workspaces: WorkspaceKind = "auto"
    repositories: str = ""
    """A folder of Git clones, for tasks that name a repository."""
    seed: int = 0


class PlanText:
    """A plan as it was written, so that mistakes that are found later have a line too."""

    def __init__(self, path: str) -> None:
        """Raises UsageError."""
        self.path = path
        self.folder = os.path.dirname(os.path.abspath(path))
        self._name = os.path.basename(path)
        text = _text_of(path)
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            reason, line = str(error), 1
            if match := re.search(r" \(at line (\d+), column \d+\)", reason):
                line, reason = int(match[1]), reason[: match.start()]
            elif "end of document" in reason:
                line = text.rstrip().count("\n") + 1
            raise UsageError(f"{self._name}:{line}: not TOML: {reason}", hint=_HINT) from None
        self._positions = Positions(text)
        self.plan = self._converted(data)

    def _converted(self, data: dict[str, Any]) -> PlanFile:
        try:
            return msgspec.convert(data, PlanFile)
        except msgspec.ValidationError as error:
            reason = str(error)
            steps: Path = ()
            if match := _PATH_IN_REASON.search(reason):
                reason = reason[: match.start()]
                steps = tuple(
                    name or (int(number) if number else dots)
                    for name, number, dots in _STEP.findall(match[1])
                )
            if unknown := _UNKNOWN_FIELD.search(reason):
                steps, reason = (*steps, unknown[1]), "there is no such field"
            raise self.error(steps, reason) from None

    def error(self, path: Path, reason: str) -> UsageError:
        """With the line of what the path names."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        where = f"{self._name}:{self._positions.line(path)}: "
        return UsageError(f"{where}{steps}: {reason}" if steps else f"{where}{reason}", hint=_HINT)

    def seconds(self, value: Duration, path: Path) -> float | None:
        """`90`, `"90s"`, `"20m"`, `"2h"`; None for what is empty."""
        if value == "":
            return None
        match = _DURATION.fullmatch(str(value))
        if match is None or float(match[1]) <= 0:
            raise self.error(path, f'a time like 90, "90s", "20m" or "2h" was expected, not {value!r}')
        return float(match[1]) * _UNITS_S.get(match[2], 1)

    def limits(self) -> RunLimits:
        plan_limits = self.plan.limits
        return RunLimits(
            run_budget_usd=plan_limits.run_budget_usd,
            timeout_s=self.seconds(plan_limits.timeout, ("limits", "timeout")),
            first_output_s=self.seconds(plan_limits.first_output, ("limits", "first_output")),
            inactivity_s=self.seconds(plan_limits.inactivity, ("limits", "inactivity")),
            max_turns=plan_limits.max_turns,
        )

    def container(self) -> ContainerSettings:
        plan_container = self.plan.container
        return replace(
            plan_container, mounts={there: self._path(here) for there, here in plan_container.mounts.items()}
        )

    def retry_wait_s(self) -> float:
        return self.seconds(self.plan.retry_wait, ("retry_wait",)) or 0.0

    def own_tasks(self) -> list[FleetTask]:
        """The tasks of the plan itself, with paths that do not depend on where we are."""
        return [self._task(table, ("task", number)) for number, table in enumerate(self.plan.task)]

    def variants(self) -> list[Variant]:
        all_variants = []
        for number, table in enumerate(self.plan.agents):
            path: Path = ("agents", number)
            self.require_inside([*table.added, *table.without], (*path, "with"))
            fields = asdict(table) | {
                "name": table.name or "/".join(filter(None, (table.agent, table.model))),
                "added": {there: self._path(here) for there, here in table.added.items()},
                "mcp": tuple(map(self._path, table.mcp)),
                "tape": self._path(table.tape) if table.tape else "",
                "model": self._model(table.model),
            }
            all_variants.append(Variant(**fields))
        return all_variants

    def require_inside(self, names: list[str], path: Path) -> None:
        """Raises UsageError for a path that leaves the workspace."""
        for name in names:
            if not name.strip("./") or os.path.isabs(name) or ".." in name.split("/"):
                raise self.error(path, f"a path inside of the workspace was expected, not {name!r}")

    def _task(self, table: TaskTable, path: Path) -> FleetTask:
        self.require_inside([*table.files, *filter(None, [table.score_file])], (*path, "files"))
        if table.commit and not table.workspace:
            raise self.error((*path, "commit"), "a commit needs a workspace: the Git repository it is in")
        return FleetTask(
            id=table.id,
            prompt=table.prompt,
            workspace=self._path(table.workspace) if table.workspace else "",
            commit=table.commit,
            setup=table.setup,
            check=table.check,
            image=table.image,
            score_file=table.score_file,
            files={there: self._path(here) for there, here in table.files.items()},
            env=table.env,
            timeout_s=self.seconds(table.timeout, (*path, "timeout")),
            setup_timeout_s=self.seconds(table.setup_timeout, (*path, "setup_timeout")) or 0.0,
            check_timeout_s=self.seconds(table.check_timeout, (*path, "check_timeout")) or 0.0,
        )

    def _path(self, name: str) -> str:
        return os.path.normpath(os.path.join(self.folder, os.path.expanduser(name)))

    def _model(self, name: str) -> str:
        """A script beside the plan is found from anywhere."""
        kind, slash, rest = name.partition("/")
        is_file = kind == "scripted" and os.path.isfile(self._path(rest))
        return f"{kind}{slash}{self._path(rest)}" if is_file else name


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 (byte {error.start})", hint="save the plan as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UsageError(f"cannot read the plan {path!r}: {reason}") from error
