"""A fleet that exists: its folder, its plan, its records, its log, and the store of its runs."""

from __future__ import annotations

import os
import re
import shutil
from functools import cached_property

import msgspec
from msgspec.structs import replace

from harness.approvals.work_folder import is_below
from harness.config import data_directory
from harness.errors import LogLocked, StoreError, UnknownSession, UsageError
from harness.fleet.plans import plan as plans
from harness.fleet.plans.digests import path_digest
from harness.fleet.plans.plan import FleetCase, FleetPlan, FleetTask, Variant
from harness.fleet.records.attempt import Attempt
from harness.fleet.records.contract import FleetRecords
from harness.fleet.records.files import FileRecords
from harness.fleet.workspace import copy_tree, remove
from harness.log.clock import new_clock
from harness.log.hub import Hub
from harness.log.private_files import make_private_directory, replace_private
from harness.log.store import Metadata, Store
from harness.log.stores.files import FileStore
from harness.log.stores.open_store import open_store
from harness.undo.store import undo_directory

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LOG_ID = "fleet"
_GRADES = "grades"
WORK_FOLDER = ".harness-work"
"""Of all fleets in a folder: their workspaces while they run."""
STORE_VARIABLE = "HARNESS_FLEET_STORE"


class Fleet:
    """Contract: the same in every process that names it the same way (`words`)."""

    def __init__(self, name: str, directory: str, records: FleetRecords, database: str = "") -> None:
        self.name = name
        self.directory = directory
        self.records = records
        self.database = database
        """The PostgreSQL database of records and logs; empty: they are files."""
        self.keeps_workspaces = False
        """Those of cases that are not solved, for a look at them."""

    @cached_property
    def plan(self) -> FleetPlan:
        """Raises StoreError where it cannot be read."""
        try:
            return plans.decode(self.records.plan())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(
                f"the plan of the fleet {self.name} cannot be read: {error}",
                hint=f"delete {self.directory} to begin again",
            ) from error

    @cached_property
    def sessions(self) -> Store:
        """Where the logs of the runs are."""
        return open_store(self.plan.sessions)

    @property
    def words(self) -> tuple[str, ...]:
        """How another process names this fleet on its command line, with `environment`."""
        return (self.name,) if self.database else (self.directory,)

    @property
    def environment(self) -> dict[str, str]:
        """What another process needs besides; not on its command line, which anyone may read."""
        return {STORE_VARIABLE: self.database} if self.database else {}

    @property
    def log_id(self) -> str:
        return f"{_LOG_ID}-{self.name}" if self.database else _LOG_ID

    @cached_property
    def log_store(self) -> Store:
        """Where the fleet's own log is."""
        return self.sessions if self.database else FileStore(self.directory)

    def case(self, case_id: str) -> FleetCase:
        """By its id or the beginning of it. Raises UsageError."""
        cases = [case for case in self.plan.cases.values() if case.id.startswith(case_id)]
        if len(cases) != 1 or not case_id:
            what = "several cases begin with" if cases and case_id else "there is no case"
            raise UsageError(
                f"{what} {case_id!r} in the fleet {self.name}",
                hint=f"`harness fleet status {self.name}` lists its cases",
            )
        return cases[0]

    def workspace(self, case_id: str) -> str:
        """Beside the fleet's folder, not in it: hidden files and the changes of others are there."""
        parent, name = os.path.split(self.directory)
        return os.path.join(parent, WORK_FOLDER, name, case_id)

    @property
    def hidden(self) -> tuple[str, ...]:
        """What no agent may look at: hidden files, results, and what others do and did, which their logs and the states of
        their files say too. No folder that has the fleet in it, where other things are that agents need.
        """
        work = os.path.join(os.path.dirname(self.directory), WORK_FOLDER)
        logs = self.sessions.directory if isinstance(self.sessions, FileStore) else ""
        others = [path for path in (logs, undo_directory()) if path and not is_below(self.directory, path)]
        return (self.directory, work, *others, *self.plan.hidden)

    def base(self, case_id: str) -> str:
        """What is remembered of a workspace, for its patch."""
        return os.path.join(self.directory, "base", case_id)

    def kept_workspace(self, attempt: Attempt) -> str:
        return os.path.join(self.directory, "kept", f"{attempt.case}.{attempt.number}")

    def save_grade(self, attempt: Attempt) -> None:
        """What a check said when it was run again; see `grades`."""
        folder = os.path.join(self.directory, _GRADES)
        make_private_directory(folder)
        replace_private(
            os.path.join(folder, f"{attempt.case}.{attempt.number}.json"), msgspec.json.encode(attempt)
        )

    def grades(self) -> dict[tuple[str, int], Attempt]:
        """Results whose check was run again, by case and attempt: they count instead of what is stored first."""
        grades_by_run: dict[tuple[str, int], Attempt] = {}
        folder = os.path.join(self.directory, _GRADES)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    attempt = msgspec.json.decode(file.read(), type=Attempt)
            except (OSError, msgspec.DecodeError):  # it is being written
                continue
            grades_by_run[attempt.case, attempt.number] = attempt
        return grades_by_run

    def output(self, case_id: str) -> str:
        """What the worker of a case wrote itself, which is nothing unless something is wrong."""
        return os.path.join(self.directory, "output", f"{case_id}.log")

    def open_log(self) -> Hub:
        """The fleet's own log, for writing. Raises LogLocked when another process has it."""
        clock = new_clock()
        try:
            writer = self.log_store.open(self.log_id)
        except UnknownSession:
            about = Metadata(session_id=self.log_id, name=f"fleet {self.name}", tags=[f"fleet={self.name}"])
            writer = self.log_store.create(about)
        except LogLocked as error:
            raise LogLocked(
                f"the fleet {self.name} is being run by process {error.holder or 'unknown'}",
                holder=error.holder,
                hint="`--join` works beside it, `harness fleet status` shows it, `harness fleet stop` stops it",
            ) from error
        return Hub(self.log_store, self.log_id, writer, clock)

    def close(self) -> None:
        self.records.close()


def fleets_directory() -> str:
    return os.path.join(data_directory(), "fleets")


def named_fleet(name: str, database: str = "") -> Fleet:
    """The fleet of a name, never one in another folder. Raises UsageError where there is none."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"there is no fleet {name[:80]!r}", hint="`harness fleet list` shows what there is")
    return open_fleet(name, database)


def open_fleet(reference: str, database: str = "") -> Fleet:
    """The fleet of a name, or in a folder. Raises UsageError where there is none."""
    fleet = fleet_at(reference, database)
    fleet.records.plan()
    return fleet


def create_fleet(plan: FleetPlan, reference: str, database: str = "") -> Fleet:
    """Fix the plan of a fleet. One that exists with the same cases is continued; with others it is refused."""
    fleet = fleet_at(reference or plan.name, database)
    make_private_directory(fleet.directory)
    frozen = replace(
        plan,
        name=fleet.name,
        tasks=tuple(_frozen(task, fleet.directory) for task in plan.tasks),
        hidden=tuple(sorted({os.path.abspath(here) for task in plan.tasks for here in task.files.values()})),
        variants=tuple(_frozen_variant(variant, fleet.directory) for variant in plan.variants),
    )
    frozen = replace(frozen, digests=_digests(frozen, fleet.directory))
    stored_plan = plans.decode(fleet.records.save_plan(plans.encode(frozen)))
    if stored_plan.cases.keys() != plan.cases.keys():
        raise UsageError(
            f"the fleet {fleet.name} exists with other cases: the plan or a task has changed since",
            hint="give it another name with --name",
        )
    # What does not change what a case is may be changed in the middle.
    fleet.plan = replace(
        stored_plan,
        budget_usd=plan.budget_usd,
        retries=plan.retries,
        providers=plan.providers,
        seed=plan.seed,
    )
    return fleet


def _digests(plan: FleetPlan, directory: str) -> dict[str, str]:
    """Of all that was copied into the fleet's folder."""
    groups = [*(task.files for task in plan.tasks), *(variant.added for variant in plan.variants)]
    paths = [task.workspace for task in plan.tasks] + [path for group in groups for path in group.values()]
    paths += [variant.tape for variant in plan.variants if variant.tape]
    digests: dict[str, str] = {}
    return {path: path_digest(path, digests) for path in paths if path.startswith(f"{directory}{os.sep}")}


def _frozen(task: FleetTask, directory: str) -> FleetTask:
    """With copies of the workspace, of what its image is built from, and of the hidden files, so that a later change of them changes no case."""
    workspace = task.workspace
    if workspace and not task.commit:
        workspace = _copied(workspace, directory, task.digest, "workspace")
    context = _copied(task.context, directory, task.digest, "context") if task.context else ""
    files = _frozen_files(task.files, directory, task.digest)
    return replace(task, workspace=workspace, context=context, files=files)


def _frozen_variant(variant: Variant, directory: str) -> Variant:
    tape = _copied(variant.tape, directory, variant.digest, "tape") if variant.tape else ""
    return replace(variant, added=_frozen_files(variant.added, directory, variant.digest), tape=tape)


def _frozen_files(files: dict[str, str], directory: str, digest: str) -> dict[str, str]:
    return {
        there: _copied(here, directory, digest, f"file-{number}")
        for number, (there, here) in enumerate(files.items())
    }


def _copied(source: str, directory: str, digest: str, name: str) -> str:
    target = os.path.join(directory, "tasks", digest, name)
    if os.path.lexists(target):
        return target
    make_private_directory(os.path.dirname(target))
    temporary = f"{target}.{os.getpid()}.new"
    try:
        if os.path.isdir(source):
            copy_tree(source, temporary)
        else:
            shutil.copy2(source, temporary)
        os.rename(temporary, target)
    except OSError as error:
        remove(temporary)
        if not os.path.lexists(target):  # else another process has just copied the same
            raise StoreError(f"cannot copy {source} into {directory}: {error.strerror}") from error
    return target


def fleet_at(reference: str, database: str = "") -> Fleet:
    """The fleet that has this name or folder, whether or not it exists. Raises UsageError for a name that none can have."""
    is_path = "/" in reference or reference in {".", ".."}
    name = os.path.basename(os.path.abspath(reference)) if is_path else reference
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a fleet", hint="up to 64 letters, digits, `_` and `-`"
        )
    directory = os.path.abspath(reference) if is_path else os.path.join(fleets_directory(), name)
    if database:
        from harness.fleet.records.postgres import PostgresRecords

        return Fleet(name, directory, PostgresRecords(database, name), database)
    return Fleet(name, directory, FileRecords(directory))


def fleet_names(database: str = "") -> list[str]:
    """Those of the database, else those of the user's own folder."""
    if database:
        from harness.fleet.records.postgres import fleets_in

        return fleets_in(database)
    try:
        names = os.listdir(fleets_directory())
    except FileNotFoundError:
        return []
    return sorted(
        name for name in names if os.path.isfile(os.path.join(fleets_directory(), name, "plan.json"))
    )
