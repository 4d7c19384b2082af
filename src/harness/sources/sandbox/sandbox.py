"""Confine a command: it may read, but write only into the workspace, and reach no network.

Two ways, the stronger one first; where neither works, a run that asks for a sandbox is refused.

    bubblewrap   a view of the system of its own, read-only but for the workspace, with its own /tmp, its
                 own processes, and a network that leads nowhere. What is `protected` is mounted read-only
                 over itself; where it is absent, a stand-in is (`placeholders`).
    Landlock     rights that a process gives up; see `confinement`. It knows no exceptions below a
                 directory, so that commands change what is in the workspace, and work below its folders, but
                 put nothing new directly into it, nor into any other folder with something protected.

New repositories below the workspace can be made all the same: they are looked at when the command has ended
(`git_directories`).
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec
from msgspec.structs import replace

from harness.config import data_directory
from harness.errors import HarnessError, UsageError
from harness.sources.process.invocation import Invocation
from harness.sources.sandbox.git_directories import GIT, switch_off_new
from harness.sources.sandbox.protected_paths import PathGuard, Survey, guards, survey
from harness.sources.tool import ToolFailure
from harness.system.contract import system

_FAMILIES_IN_OWN_NETWORK = (2, 10, 16)
"""IPv4, IPv6, and netlink, with which bubblewrap sets up the loopback. Not Unix sockets: those are files,
and would lead out."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_USUAL_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin")
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
_KERNEL_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger")
"""Root may write to them without any capability, and bubblewrap does not always cover them."""
_OF_ROOT = ("--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE")
_PROBE_TIMEOUT_S = 10.0


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    confined: Callable[[Invocation, Survey, str], Invocation]
    """(what to start, where it may write and what is protected there, a directory for temporary files) → the
    same, confined. Raises UsageError when something cannot be protected."""


def find_sandbox(environ: Mapping[str, str] | None = None) -> Sandbox:
    """The strongest that works here. Raises UsageError when none does: then nothing may run."""
    if not system.can_confine:
        raise UsageError(
            "there is no sandbox on this system: only Linux has one", hint="run without --sandbox"
        )
    # Only now: other systems cannot load it.
    from harness.system.confinement import OLDEST_LANDLOCK, is_known_machine, landlock_version

    environ = os.environ if environ is None else environ
    program = bubblewrap_program(environ)
    if program and is_known_machine() and (sandbox := bubblewrap(program)) and works(sandbox):
        return sandbox
    if is_known_machine() and landlock_version() >= OLDEST_LANDLOCK:
        return LANDLOCK
    found = "bubblewrap is installed but does not work" if program else "bubblewrap is not installed"
    raise UsageError(
        f"there is no sandbox here: {found}, and this kernel offers no Landlock that would do",
        hint="install bubblewrap (the program bwrap), or run without --sandbox",
    )


def bubblewrap_program(environ: Mapping[str, str]) -> str:
    """Empty when it is not installed. A relative folder on PATH, such as the workspace, is not looked into."""
    on_path = [folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    for folder in (*_USUAL_FOLDERS, *on_path):
        program = os.path.join(folder, "bwrap")
        if os.access(program, os.X_OK):
            return program
    return ""


def bubblewrap(program: str) -> Sandbox:
    def confined(invocation: Invocation, surveyed: Survey, _temporary: str) -> Invocation:
        guarded = guards(surveyed)
        _require_no_links(guarded)
        locks = _lock_folder() if guarded else ""
        binds = [part for path in surveyed.roots for part in ("--bind", path, path)]
        for guard in guarded:
            binds += ("--bind" if guard.is_open else "--ro-bind", guard.path, guard.path)
        switches = [part for path in _KERNEL_SWITCHES for part in ("--ro-bind-try", path, path)]
        argv = (
            *(program, "--die-with-parent", *_NAMESPACES),
            *(_OF_ROOT if os.geteuid() == 0 else ()),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108
            *(*switches, *binds, *(("--tmpfs", locks) if locks else ())),
            *("--chdir", invocation.cwd, "--", *invocation.argv),
        )
        return replace(
            invocation,
            argv=argv,
            env=_with_temporary(invocation.env, "/tmp"),  # noqa: S108
            confinement=_policy(
                writable=None, sockets=_FAMILIES_IN_OWN_NETWORK, locks=locks, guarded=guarded
            ),
        )

    return Sandbox(name="bubblewrap", confined=confined)


def _require_no_links(guarded: Sequence[PathGuard]) -> None:
    link = next((guard.path for guard in guarded if os.path.islink(guard.path)), "")
    if link:
        raise UsageError(
            f"{link} is a symbolic link, and what is there could not be protected",
            hint="put the real thing there, or run without --sandbox",
        )


def _lock_folder() -> str:
    """For the locks of stand-ins: of the user's own, and out of reach for confined commands."""
    from harness.log.private_files import make_private_directory

    wanted = os.path.join(data_directory(), "sandbox")
    try:
        make_private_directory(wanted)
    except OSError:  # no home that could be written to
        wanted = f"/tmp/harness-sandbox-{os.geteuid()}"  # noqa: S108 # looked at below
        with suppress(FileExistsError):
            os.mkdir(wanted, 0o700)
    status = os.lstat(wanted)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UsageError(f"{wanted} is not a folder of yours alone", hint=f"remove {wanted}")
    return os.path.realpath(wanted)


def _with_landlock(invocation: Invocation, surveyed: Survey, temporary: str) -> Invocation:
    own = [os.path.join(root, GIT) for root in surveyed.roots]
    listed = (*own, *surveyed.named, *surveyed.repositories(), *surveyed.pointers(), *surveyed.links())
    closed = {path for one in listed for path in (one, os.path.realpath(one))}
    paths = [path for root in surveyed.roots for path in _all_but(root, closed)]
    return replace(
        invocation,
        env=_with_temporary(invocation.env, temporary),
        confinement=_policy(writable=(*paths, temporary, *_DEVICES), sockets=()),
    )


LANDLOCK = Sandbox(name="landlock", confined=_with_landlock)


def _policy(
    *,
    writable: Sequence[str] | None,
    sockets: Sequence[int],
    locks: str = "",
    guarded: Sequence[PathGuard] = (),
) -> str:
    wanted = [(guard.path, guard.stand_in) for guard in guarded]
    policy = {"writable": writable, "sockets": sockets, "locks": locks, "stand_ins": wanted}
    return msgspec.json.encode(policy).decode()


def _with_temporary(env: Mapping[str, str], folder: str) -> dict[str, str]:
    return {**env, "TMPDIR": folder, "TMP": folder, "TEMP": folder}


def _all_but(folder: str, closed: set[str]) -> Iterator[str]:
    """Everything in a directory but what is closed; never the directory itself, where that could be created."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if path in closed or os.path.realpath(path) in closed:
            continue
        if (
            os.path.isdir(path)
            and not os.path.islink(path)
            and any(one.startswith(path + "/") for one in closed)
        ):
            yield from _all_but(path, closed)
        else:
            yield path


def works(sandbox: Sandbox) -> bool:
    """Whether it starts a program here: being installed says little, least of all inside a container."""
    from harness.sources.process.child import Child

    try:
        child = Child(
            sandbox.confined(Invocation(("/bin/sh", "-c", "exit 0"), {}, "/"), Survey((), (), {}), "")
        )
    except (HarnessError, OSError):
        return False
    with child:
        while child.exit is None:
            if not child.read(_PROBE_TIMEOUT_S) and child.exit is None and not child.stdout_open:
                child.kill()
    return child.exit.code == 0


# Around confined programs: what is protected is looked up before, and what they left is looked at after.


@asynccontextmanager
async def confined(
    sandbox: Sandbox, invocation: Invocation, roots: Sequence[str]
) -> AsyncIterator[tuple[Invocation, list[str]]]:
    """What to start instead, and a list: after the block it says what had to be switched off.

    Raises ToolFailure when something cannot be protected.
    """
    from tempfile import TemporaryDirectory

    refused: list[str] = []
    with TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as temporary:
        try:
            surveyed = await asyncio.to_thread(survey, roots)
            wanted = sandbox.confined(invocation, surveyed, temporary)
        except UsageError as error:
            raise ToolFailure(error.words) from None
        try:
            yield wanted, refused
        except BaseException:
            switch_off_new(surveyed.roots, surveyed.found)  # at once: the caller may not wait any more
            raise
        refused += await asyncio.to_thread(switch_off_new, surveyed.roots, surveyed.found)


@asynccontextmanager
async def confining(
    sandbox: Sandbox, roots: Sequence[str], on_refused: Callable[[str], object]
) -> AsyncIterator[Callable[[Invocation], Invocation]]:
    """The same for programs that are started again and again: what confines each of them.

    It raises UsageError when something cannot be protected. After the block `on_refused` is called with what had to be
    switched off.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as temporary:
        before = await asyncio.to_thread(survey, roots)
        try:
            yield lambda invocation: sandbox.confined(invocation, survey(roots), temporary)
        finally:
            for text in switch_off_new(before.roots, before.found):
                on_refused(text)
