"""What a wall around a program lets through: the contract between those who want one and the rungs that build it.

    Wall                   what is wanted (this file)
    protected_paths        what is protected in a workspace, and found there before a program starts
    rungs                  the ways to build a wall: own namespaces, bubblewrap, Landlock
    ladder                 `best_wall()`: the strongest of them that works here, tried and not guessed
    walled_programs        one wall, from before its program starts until what it left was looked at

A program gets a wall by `Invocation.wall`; `Child` builds it, takes it down, and says in `ChildExit.refused` what had
to be switched off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from harness.process.invocation import Invocation
    from harness.sandbox.walled_programs import BuiltWall

Network: TypeAlias = Literal["none", "host"]
"""`none`: a network of its own, in which there is only the loopback; with Landlock none at all."""
_FolderSettings: TypeAlias = Literal["keep", "blank"]


class Wall(msgspec.Struct, frozen=True, kw_only=True):
    """Everything can be read and nothing written, but for what is said here. All paths are absolute."""

    confines: bool = True
    """False: in all that is not hidden or blank the program may do what it could do without a wall. For the settings of a
    folder that is not trusted, and for what a run must not see; of the rest only `workspaces`, `writable`, `readable`,
    `settings` and `protected` count then."""
    workspaces: tuple[str, ...] = ()
    """Written to, but for what is protected there: that can be neither changed nor made."""
    writable: tuple[str, ...] = ()
    """Files and folders that are written to without exception, such as an agent's own. What is not there is left out."""
    hidden: tuple[str, ...] = ()
    """Folders that are seen as empty, but for what of the others lies in them; what is written there is thrown away.
    Files that are seen as empty."""
    readable: tuple[str, ...] = ()
    """What stays to be seen in a hidden folder."""
    network: Network = "none"
    ports: tuple[int, ...] = ()
    """With the network of the host: to connect by TCP to these alone. Empty: to any."""
    is_sealed: bool = False
    """With `ports`: no other kind of socket, nothing that listens, and none of the calls by which a program could get around
    that."""
    may_serve: bool = False
    """With `is_sealed`: it may listen all the same, on a port that the system chooses."""
    listener: tuple[str, int] | None = None
    """With a network of its own: a Unix socket and a port. A socket that listens on this port inside is handed to whoever
    listens on that one outside, before the program starts; who sends two bytes there later, the number of a port, gets
    an error number of four bytes, and with 0 a connection to that port inside."""
    settings: _FolderSettings = "keep"
    """`blank`: of what is protected in the workspaces, `.git` apart, nothing is seen. Folders are empty, and what
    is written there is thrown away; files are empty, or `{}`. So no program obeys a folder's settings."""
    blank: tuple[str, ...] = ()
    """More files and folders, wherever they lie, of which nothing is seen."""
    discards: tuple[str, ...] = ()
    """Protected folders in the workspaces: what is written there is thrown away instead of refused, since some agents
    end where they cannot write to a folder of their own settings. With Landlock it is refused all the same."""
    protected: tuple[str, ...] | None = None
    """Names in the workspaces; None: all of `protected_paths.PROTECTED`."""

    def build(self, invocation: Invocation) -> tuple[Invocation, BuiltWall]:
        """For `Child`: what to start instead, and the wall itself. Raises UsageError where none can be built."""
        from harness.sandbox.walled_programs import wall_around  # only here: most programs have no wall

        return wall_around(invocation, self)
