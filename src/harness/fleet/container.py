"""The container of a case whose task needs an image: Docker or Podman, by their command line.

The first process of a container reads from the worker. So it ends with the worker, however that ends, and the container
with everything in it ends with its first process. Setup, agent and check run inside with `exec`. Workspace and home have
the same paths inside and outside, so that arguments, events and patches mean the same on both sides.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from shlex import join

from harness.contracts.agent import Agent
from harness.errors import HarnessError, UsageError
from harness.fleet.plans.plan import ContainerSettings, FleetTask
from harness.fleet.step import StepStopped
from harness.process.child import Child
from harness.process.invocation import Invocation, find_program

_ENGINES = ("docker", "podman")
_LABEL = "harness.fleet"
_ANSWER_S = 60.0
_IMAGE_S = 3600.0
"""To fetch or build an image."""
_START_S = 600.0
_READY = b"harness: ready"
_OWN_VARIABLES = ("HOME", "PATH", "PWD", "LD_", "XDG_", "DOCKER_", "CONTAINER")
"""They mean something to the engine's own program, and are not passed to it."""
_LONGEST_REASON = 500
_SMALL_BYTES = 100_000


class ContainerFailed(Exception):
    """The output of the engine."""


class CaseContainer:
    """Contract: nothing of it is left when `close` returns, or when this process has ended."""

    def __init__(self, place: str, task: FleetTask, settings: ContainerSettings) -> None:
        """`place`: the folder of the case. The container has its `repo` and `home`."""
        self._task = task
        self._settings = settings
        self._place = place
        self._repo = os.path.join(place, "repo")
        self._home = os.path.join(place, "home")
        self._name = _name(place)
        self._folder = ""
        """Where the image has what the agent works on; empty: nowhere."""
        self._child: Child | None = None

    def fill(self) -> None:
        """Copy what the agent works on out of the image, where the task has no workspace. Raises ContainerFailed."""
        prepare_image(self._task)
        os.mkdir(self._repo)
        folder = self._task.workdir or _working_folder(self._task.image)
        if folder in {"", "/"}:
            return
        self._folder = folder
        _ask("create", "--name", self._name, "--label", self._label, self._task.image, "true")
        try:
            _ask("cp", f"{self._name}:{folder}/.", self._repo, timeout_s=_START_S)
        finally:
            remove_container(self._place)

    def start(self, is_stopped: Callable[[], bool]) -> None:
        """Raises ContainerFailed, StepStopped."""
        prepare_image(self._task)
        remove_container(self._place)
        argv = (container_engine(), "run", "-i", "--rm", "--name", self._name, *self._options())
        script = f"echo {_READY.decode()}; read -r end"
        invocation = Invocation(
            (*argv, self._task.image, "-c", script), dict(os.environ), self._place, stdin_stays_open=True
        )
        try:
            self._child = child = Child(invocation)
        except HarnessError as error:
            raise ContainerFailed(error.words) from error
        output, ends = b"", time.monotonic() + _START_S
        while _READY not in output:
            output += b"".join(chunk.data for chunk in child.read(0.5))
            if is_stopped():
                raise StepStopped
            if child.exit is not None or time.monotonic() > ends:
                raise ContainerFailed(f"the container does not start: {_reason(output)}")

    def argv(
        self, command: tuple[str, ...], env: Mapping[str, str], *, has_input: bool = False
    ) -> tuple[str, ...]:
        """The command that runs a command inside, with these variables. The caller passes `outer(env)` to it."""
        inner = {"HOME": self._home, **env}
        docker_command = outer(inner)
        args = [word for name in docker_command for word in ("-e", name)]
        args += [
            word for name in inner if name not in docker_command for word in ("-e", f"{name}={inner[name]}")
        ]
        # Only where it is needed: Podman loses the output of what ends without having read its input.
        options = ("-i",) if has_input else ()
        return (container_engine(), "exec", *options, "-w", self._repo, *args, self._name, *command)

    def agent_program(self, agent: Agent, binary: str, env: Mapping[str, str]) -> str:
        """A program outside that is the agent inside. `env`: what it gets, besides its keys and its own settings."""
        keys = {name: "" for name in agent.key_variables if name in os.environ}
        argv = self.argv((binary or agent.binaries[0],), {**keys, **env}, has_input=True)
        path = os.path.join(self._place, "agent")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {join(argv)} "$@"\n')
        os.chmod(path, 0o700)
        return path

    def put(self, here: str, there: str) -> None:
        """Copy a file or folder to a path outside of the workspace, in place of what is there. Raises OSError."""
        try:
            _ask("exec", self._name, "rm", "-rf", there)
            _ask("cp", here, f"{self._name}:{there}", timeout_s=_START_S)
        except ContainerFailed as error:
            raise OSError(None, str(error), there) from error

    def read(self, path: str) -> bytes:
        """A small file of the container; empty where there is none."""
        try:
            return _ask("exec", self._name, "head", "-c", str(_SMALL_BYTES), path).encode()
        except ContainerFailed:
            return b""

    def end_processes(self) -> None:
        """End everything inside but the first process: what ends outside does not end inside."""
        with suppress(ContainerFailed):
            _ask("exec", self._name, "sh", "-c", "kill -9 -1")

    def give_back(self) -> None:
        """Make what was written inside the user's own. The root of a container of Podman is the user; of Docker it is root."""
        if os.getuid() != 0 and os.path.basename(container_engine()) == "docker":
            with suppress(ContainerFailed):
                owner = f"{os.getuid()}:{os.getgid()}"
                _ask("exec", self._name, "chown", "-R", owner, self._repo, self._home)

    def close(self) -> None:
        if self._child is not None:
            self.give_back()
            self._child.close_stdin()
            with self._child as child:
                ends = time.monotonic() + _ANSWER_S
                while child.exit is None and time.monotonic() < ends:
                    child.read(0.5)
            self._child = None
        remove_container(self._place)

    @property
    def _label(self) -> str:
        return f"{_LABEL}={os.path.dirname(os.path.dirname(self._place))}"

    def _options(self) -> Iterator[str]:
        yield from ("--label", self._label, "--entrypoint", "sh", "--user", "0")
        yield from ("--security-opt", "label=disable")
        for path in (self._repo, self._home):
            yield from ("--mount", f"type=bind,source={path},target={path}")
        if self._folder:
            yield from ("--mount", f"type=bind,source={self._repo},target={self._folder}")
        for there, here in self._settings.mounts.items():
            yield from ("--mount", f"type=bind,source={here},target={there},readonly")
        if self._task.cpus:
            yield from ("--cpus", f"{self._task.cpus:g}")
        if self._task.memory_mb:
            yield from ("--memory", f"{self._task.memory_mb:.0f}m")
        if self._settings.network:
            yield from ("--network", self._settings.network)


def _working_folder(image: str) -> str:
    return _ask("image", "inspect", "--format", "{{.Config.WorkingDir}}", image).strip()


def outer(env: Mapping[str, str]) -> dict[str, str]:
    """Those variables that reach the container through the environment of the engine's program, which is not shown to
    others as its arguments are.
    """
    return {name: value for name, value in env.items() if not name.startswith(_OWN_VARIABLES)}


@cache
def container_engine() -> str:
    """The program of the first engine that answers. Raises UsageError."""
    reasons = []
    for name in _ENGINES:
        try:
            program = find_program(name, os.environ, "/")
            _run((program, "info"), _ANSWER_S)
        except (HarnessError, ContainerFailed) as error:
            reasons.append(f"{name}: {error.message if isinstance(error, HarnessError) else error}")
        else:
            return program
    raise UsageError(f"no container engine answers ({'; '.join(reasons)})", hint="install Docker or Podman")


def prepare_image(task: FleetTask) -> None:
    """Fetch or build the image of a task unless it is there. Raises ContainerFailed, UsageError."""
    try:
        _ask("image", "inspect", "--format", "{{.Id}}", task.image)
    except ContainerFailed:
        args = ("build", "-q", "-t", task.image, task.context) if task.context else ("pull", "-q", task.image)
        _ask(*args, timeout_s=_IMAGE_S)


def remove_container(place: str) -> None:
    """Of a case whose worker may have been killed; nothing happens where there is none."""
    with suppress(ContainerFailed):
        _ask("rm", "-f", _name(place))


def _name(place: str) -> str:
    return f"harness-{sha256(os.fsencode(place)).hexdigest()[:16]}"


def _ask(*args: str, timeout_s: float = _ANSWER_S) -> str:
    """What the engine prints. Raises ContainerFailed, UsageError."""
    return _run((container_engine(), *args), timeout_s)


def _run(argv: tuple[str, ...], timeout_s: float) -> str:
    output = {"stdout": b"", "stderr": b""}
    ends = time.monotonic() + timeout_s
    try:
        child = Child(Invocation(argv, dict(os.environ), "/"))
    except HarnessError as error:
        raise ContainerFailed(error.words) from error
    with child:
        while child.exit is None and time.monotonic() < ends:
            for chunk in child.read(0.5):
                output[chunk.stream] += chunk.data
    if child.exit is None or child.exit.code != 0:
        reason = _reason(output["stderr"] or output["stdout"]) or "it does not answer"
        raise ContainerFailed(f"`{' '.join(argv[1:3])}`: {reason}")
    return output["stdout"].decode("utf-8", "replace")


def _reason(output: bytes) -> str:
    """The last line, after warnings and what was done before."""
    lines = output.decode("utf-8", "replace").strip().split("\n")
    return lines[-1].strip()[-_LONGEST_REASON:]
