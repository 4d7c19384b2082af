"""The small program between Harness and an agent, so that nothing the agent started outlives Harness.

`child` runs this file as a program, one per agent, and names the module of `harness.system` to use (`sys.argv[2]`). On Linux it
adopts the orphans of the agent's tree, so that even a process that detached itself, by setsid or a double fork,
stays below it and is found; and it kills the whole tree when Harness ends, even by SIGKILL. On other systems the
agent's process group is all that it can kill.

File descriptors at the start: 0, 1, 2 are the agent's; 3 brings the request and then commands;
4 takes reports. The request comes through a pipe because anyone may read a command line.

    request   its length in 8 bytes; then, NUL between them: Harness' process id, working directory,
              program, confinement (empty: none), number of arguments, the arguments, and KEY=value as
              often as needed
    commands  one byte each: a signal's number. SIGKILL goes to the whole tree, others to the agent's group
    reports   a line each: `started PID` or `failed cwd|sandbox|program ERRNO WORDS`; `exit STATUS`; `empty SURVIVORS`
              or `gave_up SURVIVORS` once nothing, or nothing that can be killed, is left

Every run pays for this file's start-up, so it imports little.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any

    from harness.system.contract import System
else:
    import _signal as signal  # `signal` itself makes enums of all its numbers: a quarter of the start-up

REQUESTS = 3
REPORTS = 4
KILL_TIMEOUT_S = 3.0
GROUP_CHECK_MS = 20
PARENT_CHECK_MS = 1000


class StartRequest:
    """What to start, as bytes: nothing is decoded."""

    def __init__(self, packed: bytes) -> None:
        harness, self.cwd, self.program, self.confinement, count, *rest = packed.split(b"\0")
        self.harness = int(harness)
        self.argv = rest[: int(count)]
        self.env = dict(entry.split(b"=", 1) for entry in rest[int(count) :])


class StandIns:
    """What was put into the workspace for the time of a confined program; see `placeholders`."""

    def __init__(self) -> None:
        self._module: Any = None
        self._stand_ins: list[Any] = []

    def hold(self, locks: str, places: list[tuple[str, str | None]]) -> None:
        if not places:
            return
        self._module = load("sandbox", "placeholders.py")
        self._stand_ins = self._module.hold(locks, places)

    def release(self) -> None:
        if self._module is not None:
            self._module.release(self._stand_ins)


class ProcessTree:
    """The agent and everything that descends from it."""

    def __init__(self, agent: int, system: System, *, adopting: bool) -> None:
        self.agent = agent
        self._system = system
        self.adopting = adopting
        self.agent_alive = True
        self.childless = False
        self.survivors = 0
        self._doomed: set[int] = set()

    def reap(self) -> None:
        """Bury the dead, and report the agent's end when it is among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            if pid == self.agent:
                self.agent_alive = False
                report(f"exit {status}")

    def is_empty(self) -> bool:
        """Proven when adopting: a process that adopts all orphans and has no child has no descendant."""
        return self.childless and (self.adopting or not self._group_exists())

    def signal_group(self, number: int) -> None:
        if not self.agent_alive:
            return  # its number may be that of another process by now
        # A stopped process takes a signal only when it is continued.
        for each in (number,) if number == signal.SIGSTOP else (number, signal.SIGCONT):
            try:
                os.killpg(self.agent, each)
            except OSError:
                return

    def kill(self) -> None:
        """SIGKILL everything, again and again until nothing is left or the time is over."""
        deadline = time.monotonic() + KILL_TIMEOUT_S
        pause_s = 0.001
        while not self.is_empty() and time.monotonic() < deadline:
            self._kill_once()
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)
            self.reap()

    def _kill_once(self) -> None:
        victims, groups = self._system.descendants()
        if not self.agent_alive:
            self.survivors += len(victims - self._doomed)
        self._doomed |= victims
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # gone already, or not ours to kill
        for group in groups:
            # A process that forks faster than it can be looked at cannot leave its group by that.
            try:
                os.killpg(group, signal.SIGKILL)
            except OSError:
                continue
        if self.agent_alive or (not self.adopting and self._group_exists()):
            try:
                os.killpg(self.agent, signal.SIGKILL)
            except OSError:
                return

    def _group_exists(self) -> bool:
        try:
            os.killpg(self.agent, 0)
        except OSError:
            return False
        return True


def report(line: str) -> None:
    try:
        os.write(REPORTS, line.encode(errors="replace") + b"\n")
    except OSError:
        return  # Harness is gone; the end of `REQUESTS` says so too, and is acted upon


def receive_request() -> StartRequest | None:
    """None if Harness died before it had said everything."""
    length = receive(8)
    packed = receive(int.from_bytes(length, "big"))
    return StartRequest(packed) if packed else None


def receive(count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0:
        part = os.read(REQUESTS, min(count, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def close_inherited() -> None:
    """Whatever Harness' own parent left open is none of the agent's business."""
    try:
        numbers = [int(entry) for entry in os.listdir("/dev/fd")]
    except OSError:
        os.closerange(REPORTS + 1, os.sysconf("SC_OPEN_MAX"))
        numbers = []
    for number in numbers:
        if number > REPORTS:
            try:
                os.close(number)
            except OSError:
                continue  # the one that listed them
    os.set_inheritable(REQUESTS, False)
    os.set_inheritable(REPORTS, False)


def start(request: StartRequest, stand_ins: StandIns) -> int | None:
    """The agent's process id; None if it did not start, which has then been reported."""
    stage = "cwd"
    try:
        os.chdir(request.cwd)
        stage = "sandbox"
        behind_wall = confine(request, stand_ins) if request.confinement else None
        stage = "program"
        return spawn(request) if behind_wall is None else behind_wall
    except OSError as error:
        stand_ins.release()
        words = " ".join((error.strerror or "").split())
        report(f"failed {getattr(error, 'stage', stage)} {error.errno} {words}")
        return None


def confine(request: StartRequest, stand_ins: StandIns) -> int | None:
    """Bind this process, and so everything it starts; or start the agent in namespaces, and return its process id.

    What goes wrong is an OSError: nothing is started then.
    """
    import errno
    import json

    try:
        policy = json.loads(request.confinement)
        confinement = load("system", "confinement.py")
        if policy["view"] is None:
            confinement.confine(policy)
        stand_ins.hold(policy["locks"], policy["stand_ins"])
        if policy["view"] is None:
            return None
        namespaces = load("system", "namespaces.py")
        agent: int = namespaces.spawn(policy, confinement, request.program, request.argv, request.env)
    except OSError:
        raise
    except Exception as error:
        raise OSError(errno.EINVAL, str(error)) from error
    return agent


def load(*path: str) -> Any:
    """A module by its path, below the package: nothing of Harness can be imported here."""
    from importlib.machinery import SourceFileLoader

    package = os.path.dirname(os.path.dirname(sys.argv[2]))
    module = type(sys)(path[-1])
    SourceFileLoader(path[-1], os.path.join(package, *path)).exec_module(module)
    return module


def spawn(request: StartRequest) -> int:
    catchable = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    try:
        return os.posix_spawn(
            request.program, request.argv, request.env, setsid=True, setsigmask=(), setsigdef=catchable
        )
    except NotImplementedError:  # setsid is newer than posix_spawn itself
        return os.posix_spawn(
            request.program, request.argv, request.env, setpgroup=0, setsigmask=(), setsigdef=catchable
        )


def close_agents_files() -> None:
    """Only the agent may hold its pipes, or they would never end, and its directory."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    os.chdir("/")


def watch_children() -> int:
    """A descriptor that becomes readable whenever a child ends."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return readable


def guard(tree: ProcessTree, children: int, parent: int, harness: int | None) -> None:
    """Carry out commands and reap until the tree is empty, was given up, or Harness has ended.

    `parent`: the process id of Harness, as Harness gave it: it may have ended already. `harness`: a descriptor that
    becomes readable when Harness ends. The end of `REQUESTS` says the same, unless a fork of Harness still holds
    the other side; without the descriptor the parent is looked at once a second.
    """
    idle_ms = PARENT_CHECK_MS if harness is None else None
    poll = select.poll()
    for descriptor in (children, REQUESTS, harness):
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    while not tree.is_empty():
        # The end of a process that is not ours to wait for makes no signal.
        timeout_ms = GROUP_CHECK_MS if tree.childless else idle_ms
        ready = {descriptor for descriptor, _ in poll.poll(timeout_ms)}
        if children in ready:
            os.read(children, 4096)
        if harness in ready or os.getppid() != parent:
            return
        if REQUESTS in ready:
            commands = os.read(REQUESTS, 4096)
            if not commands:
                return
            for number in commands:
                if number == signal.SIGKILL:
                    return
                tree.signal_group(number)
        tree.reap()


def main() -> None:
    close_inherited()
    system: System = load(sys.argv[2])
    system.refuse_inspection()  # what it is sent may hold keys
    request = receive_request()
    if request is None:
        return
    adopting = system.adopt_orphans()
    children = watch_children()
    harness = system.watch_process(request.harness)
    if os.getppid() != request.harness:
        return
    stand_ins = StandIns()
    agent = start(request, stand_ins)
    if agent is None:
        return
    tree = ProcessTree(agent, system, adopting=adopting)
    try:
        close_agents_files()
        report(f"started {agent}")
        guard(tree, children, request.harness, harness)
    finally:
        tree.kill()
        if tree.is_empty():  # else what still runs could create what they stand for
            stand_ins.release()
        report(f"{'empty' if tree.is_empty() else 'gave_up'} {tree.survivors}")


if __name__ == "__main__":
    main()
    os._exit(0)  # nothing to tidy up: skipping the interpreter's own end saves its time
