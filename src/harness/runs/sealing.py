"""A sealed run (`--sealed`): the agent reaches its gateway and nothing else, and writes only where it may.

namespaces   a network of its own, in which the gateway alone listens; a view of the system in which nothing can be
             written but the workspace and the agent's own files, and nothing of the user's home is seen
landlock     where there are no namespaces: TCP to the gateway's port and no other socket. Landlock knows ports and not
             hosts, so that another machine could be reached on this one port; and it hides nothing
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from harness.contracts.agent import Agent
from harness.errors import UsageError
from harness.process.invocation import Invocation
from harness.runs.agent_wall import agent_wall, hiding_wall, with_blanks
from harness.sandbox.ladder import best_wall, why_not
from harness.sandbox.protected_paths import require_apart
from harness.sandbox.rungs import LANDLOCK, NAMESPACES, Rung
from harness.sandbox.wall import Wall
from harness.sandbox.walled_programs import BuiltWall
from harness.system.contract import system

WEAKER_SEAL = (
    "sealed with Landlock alone, since the system refuses namespaces: files of your home can be read, and another machine "
    "could be reached on the port of the gateway"
)


def find_seal(sealed: str, cwd: str) -> Rung:
    """What would seal a run there. Raises UsageError where nothing can: it is never run unsealed instead."""
    if os.path.realpath(cwd) == os.sep:
        raise UsageError("nothing can be sealed in the whole system", hint="name a workspace with --cwd DIR")
    require_apart(os.path.realpath(cwd))
    rung = best_wall()
    if rung is NAMESPACES:
        return rung
    hint = "allow user namespaces, or run without --sealed"
    if sealed == "read":
        raise UsageError("--sealed=read needs namespaces, and the system refuses them", hint=hint)
    if not system.can_confine:
        raise UsageError("a run can be sealed on Linux only", hint="run without --sealed")
    if reason := why_not(LANDLOCK):
        raise UsageError(f"a run cannot be sealed here: {reason}", hint=hint)
    from harness.system.confinement import TCP_SINCE, landlock_version

    if landlock_version() < TCP_SINCE:
        raise UsageError(
            "a run cannot be sealed here: this kernel's Landlock knows nothing of TCP", hint=hint
        )
    return LANDLOCK


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """An `Enclosure`: built around the agent's program when it starts."""

    rung: Rung
    wall: Wall

    def build(self, invocation: Invocation) -> tuple[Invocation, BuiltWall]:
        """Raises UsageError where it cannot be built."""
        built = BuiltWall(self.rung, self.wall)
        try:
            return built.around(invocation), built
        except BaseException:
            built.take_down()
            raise


def seal_around(
    rung: Rung,
    agent: Agent,
    invocation: Invocation,
    *,
    port: int,
    listener_path: str,
    own: Sequence[str],
    may_serve: bool = False,
) -> Invocation:
    """`own`: further folders that are the agent's. `listener_path`: where the gateway waits for its listener. `may_serve`: we
    talk to a server that the program starts.
    """
    cwd, env = invocation.cwd, invocation.env
    wall = agent_wall(agent, invocation.argv, cwd, env)
    user_home = os.path.realpath(os.path.expanduser("~"))
    if user_home not in wall.hidden and user_home != os.sep and rung.hides:
        wall = hiding_wall((user_home,), invocation.argv, cwd, env, wall)
    wall = with_blanks(wall, invocation.wall)
    wall = replace(wall, writable=(*wall.writable, *_existing(own)))
    if rung is NAMESPACES:
        wall = replace(wall, network="none", listener=(listener_path, port))
    else:
        wall = replace(wall, network="host", ports=(port,), is_sealed=True, may_serve=may_serve, hidden=())
    return replace(invocation, wall=Seal(rung=rung, wall=wall))


def _existing(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if os.path.isdir(path)]


def proxy_environment(url: str, token: str) -> Mapping[str, str]:
    """For programs that may reach some hosts: the gateway is their proxy."""
    address = url.replace("http://", f"http://harness:{token}@", 1)
    return {"HTTPS_PROXY": address, "https_proxy": address}
