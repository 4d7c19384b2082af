"""Confine a command: it may read, but write only into the workspace, and reach nobody.

Two ways, the stronger one first; where neither works, a run that asks for a sandbox is refused.

    bubblewrap   a view of the system of its own, read-only but for the workspace, with its own /tmp, its
                 own processes, and a network that leads nowhere
    Landlock     rights that a process gives up; see `confinement`. It knows no exceptions below a
                 directory, so that where something in the workspace is protected, commands change what is
                 there, below that, but put nothing new directly into the workspace.

Protected is what makes others do something later: what git, Harness and other agents run or obey. Only
what is there can be protected: a command may begin a repository where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from harness.errors import HarnessError, UsageError
from harness.sources.confinement import OLDEST_LANDLOCK, is_known_machine, landlock_version
from harness.sources.invocation import Invocation

PROTECTED = (".git", ".harness", "harness.toml", ".harnessrc.toml", ".mcp.json", ".claude", ".codex")
"""Names directly in the workspace that no confined command may change."""

_FAMILIES_IN_OWN_NETWORK = (2, 10, 16)
"""IPv4, IPv6, and netlink, with which bubblewrap sets up the loopback. Not Unix sockets: those are files,
and would lead out."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_USUAL_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin")
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
_KERNEL_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger")
"""Root may write to them without any capability, and bubblewrap does not always cover them."""
_OF_ROOT = ("--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE")
_PROBE_PATIENCE_S = 10.0


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    confined: Callable[[Invocation, Sequence[str], str], Invocation]
    """(what to start, where it may write, a directory for temporary files) → the same, confined."""


def find_sandbox(environ: Mapping[str, str] | None = None) -> Sandbox:
    """The strongest that works here. Raises UsageError when none does: then nothing may run."""
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
    def confined(invocation: Invocation, writable: Sequence[str], _temporary: str) -> Invocation:
        binds = [part for path in writable for part in ("--bind", path, path)]
        protected = [part for path in _protected_in(writable) for part in ("--ro-bind", path, path)]
        switches = [part for path in _KERNEL_SWITCHES for part in ("--ro-bind-try", path, path)]
        argv = (
            *(program, "--die-with-parent", *_NAMESPACES),
            *(_OF_ROOT if os.geteuid() == 0 else ()),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108
            *(*switches, *binds, *protected),
            *("--chdir", invocation.cwd, "--", *invocation.argv),
        )
        policy = _policy(writable=None, sockets=_FAMILIES_IN_OWN_NETWORK)
        return replace(
            invocation,
            argv=argv,
            env=_with_temporary(invocation.env, "/tmp"),  # noqa: S108
            confinement=policy,
        )

    return Sandbox(name="bubblewrap", confined=confined)


def _with_landlock(invocation: Invocation, writable: Sequence[str], temporary: str) -> Invocation:
    protected = {os.path.realpath(path) for path in _protected_in(writable)}
    paths = [path for root in writable for path in _all_but(root, protected)]
    return replace(
        invocation,
        env=_with_temporary(invocation.env, temporary),
        confinement=_policy(writable=(*paths, temporary, *_DEVICES), sockets=()),
    )


LANDLOCK = Sandbox(name="landlock", confined=_with_landlock)


def _policy(*, writable: Sequence[str] | None, sockets: Sequence[int]) -> str:
    return msgspec.json.encode({"writable": writable, "sockets": sockets}).decode()


def _with_temporary(env: Mapping[str, str], folder: str) -> dict[str, str]:
    return {**env, "TMPDIR": folder, "TMP": folder, "TEMP": folder}


def _protected_in(writable: Sequence[str]) -> list[str]:
    candidates = (os.path.join(root, name) for root in writable for name in PROTECTED)
    return [path for path in candidates if os.path.lexists(path)]


def _all_but(root: str, protected: set[str]) -> list[str]:
    """The directory itself, or everything in it but what is protected."""
    if not any(path.startswith(root.rstrip("/") + "/") for path in protected):
        return [root]
    entries = (os.path.join(root, name) for name in sorted(os.listdir(root)))
    return [
        path
        for path in entries
        if os.path.basename(path) not in PROTECTED and os.path.realpath(path) not in protected
    ]


def works(sandbox: Sandbox) -> bool:
    """Whether it starts a program here: being installed says little, least of all inside a container."""
    from harness.sources.process import Child

    try:
        child = Child(sandbox.confined(Invocation(("/bin/sh", "-c", "exit 0"), {}, "/"), (), ""))
    except (HarnessError, OSError):
        return False
    with child:
        while child.exit is None:
            if not child.read(_PROBE_PATIENCE_S) and child.exit is None and not child.stdout_open:
                child.kill()
    return child.exit.code == 0
