"""The records of a fleet as files in its folder.

plan.json             the plan
results/CASE.json     the result of a case: linked into place, so that there is never a second one
faults/CASE.N.json    the attempts that ended without a result
diffs/CASE.N.diff     what the agent changed
running/CASE.json     the attempt that runs
locks/CASE            locked by the worker of the case
stop                  `after` or `now`
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TypeVar, cast

import msgspec

from harness.errors import StoreError, UsageError
from harness.fleet.records.attempt import Attempt, CaseProgress
from harness.fleet.records.contract import StopRequest
from harness.log.private_files import (
    append_all,
    lock_alone,
    make_private_directory,
    open_private,
    replace_private,
)

_SETTLED_S = 5.0
"""Times of folders are coarse, and those of a shared folder are another machine's."""

Record = TypeVar("Record", Attempt, CaseProgress)


class FileRecords:
    """Contract: several processes may use one folder, on several machines where it is shared and has locks."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._results: dict[str, Attempt] = {}
        self._faults: dict[str, Attempt] = {}
        """By file name. What is stored never changes, so each file is read once."""
        self._listing_times: dict[str, float] = {}
        """Folders that were listed, and when they had changed last."""

    def save_plan(self, plan: bytes) -> bytes:
        with self._storing():
            for folder in ("results", "faults", "diffs", "running", "locks"):
                make_private_directory(self._path(folder))
            self._link("plan.json", plan)
        return self.plan()

    def plan(self) -> bytes:
        try:
            with open(self._path("plan.json"), "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise UsageError(
                f"there is no fleet in {self.directory}", hint="`harness fleet list` shows what there is"
            ) from None
        except OSError as error:
            raise StoreError(f"cannot read the fleet in {self.directory}: {error.strerror}") from error

    def claim(self, case: str) -> AbstractContextManager[None] | None:
        with self._storing():
            fd = open_private(self._path("locks", case), os.O_RDWR | os.O_CREAT)
        try:
            lock_alone(fd)
        except BlockingIOError:
            os.close(fd)
            return None
        return _closing(fd)

    def is_claimed(self, case: str) -> bool:
        try:
            fd = open_private(self._path("locks", case), os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def add(self, attempt: Attempt, diff: bytes = b"") -> bool:
        name = f"{attempt.case}.{attempt.number}"
        place = f"results/{attempt.case}.json" if attempt.is_result else f"faults/{name}.json"
        if self._has_result(attempt.case):
            return False
        with self._storing():
            if diff and not os.path.lexists(self._path("diffs", f"{name}.diff")):
                replace_private(self._path("diffs", f"{name}.diff"), diff)
            is_new = self._link(place, msgspec.json.encode(attempt))
        if is_new:
            self.forget(attempt.case)
        return is_new

    def results(self) -> Mapping[str, Attempt]:
        self._read_new("results", self._results)
        return {attempt.case: attempt for attempt in self._results.values()}

    def result(self, case: str) -> Attempt | None:
        return self._results.get(f"{case}.json") or self._read("results", f"{case}.json", Attempt)

    def faults(self) -> Mapping[str, Sequence[Attempt]]:
        self._read_new("faults", self._faults)
        faults_by_case: dict[str, list[Attempt]] = {}
        for attempt in sorted(self._faults.values(), key=lambda attempt_made: attempt_made.number):
            faults_by_case.setdefault(attempt.case, []).append(attempt)
        return faults_by_case

    def faults_of(self, case: str) -> Sequence[Attempt]:
        attempts: list[Attempt] = []
        while (attempt := self._read("faults", f"{case}.{len(attempts) + 1}.json", Attempt)) is not None:
            attempts.append(attempt)
        return attempts

    def diff(self, attempt: Attempt) -> bytes:
        try:
            with open(self._path("diffs", f"{attempt.case}.{attempt.number}.diff"), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def note(self, progress: CaseProgress) -> None:
        with self._storing():
            replace_private(self._path("running", f"{progress.case}.json"), msgspec.json.encode(progress))

    def progress(self, case: str) -> CaseProgress | None:
        # A worker may be killed after it has stored its result, and before its note is removed.
        return None if self._has_result(case) else self._read("running", f"{case}.json", CaseProgress)

    def in_progress(self) -> Mapping[str, CaseProgress]:
        progress = [self.progress(name.removesuffix(".json")) for name in self._names("running")]
        return {case_progress.case: case_progress for case_progress in progress if case_progress is not None}

    def forget(self, case: str) -> None:
        with self._storing(), suppress(FileNotFoundError):
            os.unlink(self._path("running", f"{case}.json"))

    def request_stop(self, request: StopRequest) -> None:
        path = self._path("stop")
        with self._storing():
            if request:
                replace_private(path, request.encode())
            elif os.path.lexists(path):
                os.unlink(path)

    def stop_requested(self) -> StopRequest:
        try:
            with open(self._path("stop"), encoding="ascii") as file:
                text = file.read()
        except OSError:
            return ""
        return cast("StopRequest", text) if text in {"after", "now"} else ""

    def be_patient(self) -> None:
        """A folder is there, or it is not."""

    def delete(self) -> None:
        """The plan first: without it there is no fleet."""
        with self._storing(), suppress(FileNotFoundError):
            os.unlink(self._path("plan.json"))

    def close(self) -> None:
        """Nothing stays open between two calls."""

    def _path(self, *names: str) -> str:
        return os.path.join(self.directory, *names)

    def _has_result(self, case: str) -> bool:
        return os.path.lexists(self._path("results", f"{case}.json"))

    def _names(self, folder: str) -> list[str]:
        try:
            return [name for name in os.listdir(self._path(folder)) if name.endswith(".json")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"cannot list {self._path(folder)}: {error.strerror}") from error

    def _read_new(self, folder: str, known_attempts: dict[str, Attempt]) -> None:
        """A folder that has not changed for a while need not be listed again."""
        try:
            changed_s = os.stat(self._path(folder)).st_mtime
        except FileNotFoundError:
            return
        if self._listing_times.get(folder) == changed_s:
            return
        if time.time() > changed_s + _SETTLED_S:
            self._listing_times[folder] = changed_s
        for name in self._names(folder):
            if name not in known_attempts and (attempt := self._read(folder, name, Attempt)) is not None:
                known_attempts[name] = attempt

    def _read(self, folder: str, name: str, kind: type[Record]) -> Record | None:
        try:
            with open(self._path(folder, name), "rb") as file:
                return msgspec.json.decode(file.read(), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(
                f"cannot read {self._path(folder, name)}: {getattr(error, 'strerror', None) or error}",
                hint="delete the file to run the case again",
            ) from error

    def _link(self, place: str, data: bytes) -> bool:
        """Create a file with all of its content, or not at all. False: there is one."""
        path = self._path(place)
        temporary = f"{path}.{os.uname().nodename}.{os.getpid()}.new"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        fd = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                append_all(fd, (data,))
            finally:
                os.close(fd)
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        return True

    @contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"cannot write to {self.directory}: {error.strerror}") from error


@contextmanager
def _closing(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)
