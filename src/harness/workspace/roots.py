"""Which paths tools may access: those in the workspace, and other allowed directories.

A path is checked after following every symbolic link. A refusal is a message for the model, and no file
content can change it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from harness.contracts.tool import ToolFailure
from harness.formats.fields import absolute
from harness.workspace.git_directories import GIT, is_repository

FILE_NAMES = dict.fromkeys(
    ("path", "file", "filename", "file_name", "filepath", "absolute_path", "target_file", "abs_path"),
    "filePath",
)
"""What models call the argument that tools here call `filePath`."""
FOLDER_NAMES = dict.fromkeys(
    (
        "dir",
        "directory",
        "folder",
        "dir_path",
        "directory_path",
        "target_directory",
        "relative_workspace_path",
    ),
    "path",
)
VERSION_CONTROL = GIT
_LONGEST_PATH_BYTES = 4000
"""Nearly the system limit. Deeper paths are possible step by step, but other programs cannot open them."""


class ToolWorkspace:
    def __init__(
        self,
        root: str,
        *,
        readable: Iterable[str] = (),
        writable: Iterable[str] = (),
        protected: Iterable[str] = (VERSION_CONTROL,),
        closed: Iterable[str] = (),
    ) -> None:
        """`readable` and `writable`: directories outside the root that are also allowed. `protected`: paths
        in each of them that are never written to; `closed`: the same as absolute paths; with these, no
        repository is writable either.
        """
        self.root = os.path.realpath(root)
        self.writable_roots = [self.root, *map(os.path.realpath, writable)]
        self._readable_roots = [*self.writable_roots, *map(os.path.realpath, readable)]
        self._protected = {name.casefold() for name in protected}
        self._closed = [*map(os.path.realpath, closed)]

    def allow_reading(self, folder: str) -> None:
        """Also allow reading everything below this directory."""
        self._readable_roots.append(os.path.realpath(folder))

    def named(self, path: str) -> str:
        """The absolute path, without access to the file system: what a call states, and so what is decided and opened.

        `..` takes off the name before it, whether that is a link or not; `$x` and `C:` are names like any other.
        """
        return absolute(os.path.join(self.root, _expanded(path)), self.root) if path else self.root

    def shown(self, path: str) -> str:
        """A path for people and models: relative if it is in the workspace."""
        return os.path.relpath(path, self.root) if _is_below(path, self.root) else path

    def holds(self, folder: str) -> bool:
        """Whether a real path is below the root, or another directory that may be written to."""
        return any(_is_below(folder, root) for root in self.writable_roots)

    def readable(self, path: str) -> str:
        """The real path. Raises ToolFailure when it may not be read."""
        real = self._real(path)
        if not any(_is_below(real, root) for root in self._readable_roots):
            raise ToolFailure(self._refusal(path, real, "read"))
        return real

    def place_to_search(self, path: str, *, is_folder: bool = False) -> str:
        """Like `readable`, for a path that must exist; without a path, the workspace itself."""
        real = self.readable(path or ".")
        if not (os.path.isdir(real) or (not is_folder and os.path.exists(real))):
            raise ToolFailure(f"{path}: there is no such {'directory' if is_folder else 'file or directory'}")
        return real

    def writable(self, path: str) -> str:
        """The real path. Raises ToolFailure when it may not be written."""
        real = self._real(path)
        root = next((root for root in self.writable_roots if _is_below(real, root)), None)
        if root is None:
            raise ToolFailure(self._refusal(path, real, "changed"))
        if name := self._protected_part(real, root):
            raise ToolFailure(
                f"{path} was not changed: {name} is protected, since what lies there makes others run it"
            )
        return real

    def _protected_part(self, real: str, root: str) -> str:
        parts = os.path.relpath(real, root).split(os.sep)
        for count, part in enumerate(parts, 1):
            name = os.sep.join(parts[:count])
            if name.casefold() in self._protected or part.casefold() == VERSION_CONTROL:
                return name
            if self._closed and is_repository(os.path.join(root, name)):
                return name
        return next((closed for closed in self._closed if _is_below(real, closed)), "")

    def _real(self, path: str) -> str:
        try:
            real = os.path.realpath(self.named(path))
            length_bytes = len(os.fsencode(real))
        except (ValueError, OSError) as error:  # a NUL, or text that is invalid for the file system
            raise ToolFailure(f"{path!r} is no usable path: {error}") from None
        if length_bytes > _LONGEST_PATH_BYTES:
            raise ToolFailure(f"{path[:100]}… is no usable path: it is too long")
        return real

    def _refusal(self, path: str, real: str, what: str) -> str:
        leads = "" if real == self.named(path) else f" (it leads to {real})"
        return (
            f"{path} is outside of the workspace{leads}: only files below {self.root} may be {what}. "
            "The user has to allow more; nothing else can."
        )


def _expanded(path: str) -> str:
    return os.path.expanduser(path) if path.startswith("~") else path


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)
