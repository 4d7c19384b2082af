"""Every exception that Harness raises, drawn as a tree.

HarnessError                what happened, where, and what to do next
├── UsageError              the caller asked for something that cannot be (exit code 2)
│   ├── UnknownAgent
│   ├── BrokenPlugin
│   ├── UnknownView
│   ├── UnknownSession
│   ├── AlreadyAnswered     the first answer counts
│   ├── QuestionChanged     what is asked now is not what was shown
│   └── BadConfig
├── AgentNotFound           the agent's program is not installed (127)
├── SpawnFailed             the program is there but does not start (126)
├── BudgetExceeded          a limit of `harness budget` is reached, and nothing can ask for more (75)
├── InvalidDirectory        the working directory is missing or not a directory (2)
├── StoreError              the log cannot be opened, read or written (1)
│   └── LogLocked           another process is writing this log
└── MissingExtra            an optional part is not installed (2)

Rule: failures of the far side (an agent that crashes, an unreadable line) are
events in the log, never exceptions. What is raised here is a mistake of the caller or
a broken local environment.
"""

from __future__ import annotations

import os
import re
import sys
from typing import ClassVar

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class HarnessError(Exception):
    """Root of the tree. `message` says what happened, `hint` what to do next."""

    code: ClassVar[str] = "E999"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(hint)  # so that a traceback shows it as well

    @property
    def words(self) -> str:
        """`message` and `hint` on one line, as the command line prints them."""
        return f"{self.message}; {self.hint}" if self.hint else self.message

    @property
    def kind(self) -> str:
        """For programs, which must not read the sentences: the name of the class, as in `unknown_session`."""
        return _CAPITAL.sub("_", type(self).__name__).lower()


class UsageError(HarnessError):
    """Raised when the caller asks for something that cannot be done; `hint` says what can."""

    exit_code = 2


class UnknownAgent(UsageError):
    """Raised for the name of an agent that is neither built in nor installed as a plugin."""


class BrokenPlugin(UsageError):
    """A plugin's entry point is not an agent, or cannot be loaded."""


class UnknownView(UsageError):
    """Raised for the name of a format that does not exist."""


class UnknownSession(UsageError):
    """Raised for the id of a session or thread that does not exist."""


class AlreadyAnswered(UsageError):
    """Raised for an answer to a question that is not open any more: the first answer counts."""


class QuestionChanged(UsageError):
    """Raised for an answer that was meant for another question than the one that is open."""


class BadConfig(UsageError):
    """Raised for a settings file that cannot be read, and for values that it may not have."""


class AgentNotFound(HarnessError):
    """Raised when the program of an agent is not installed."""

    code = "E001"
    exit_code = 127


class SpawnFailed(HarnessError):
    """Raised when the program of an agent is there but does not start."""

    code = "E002"
    exit_code = 126


class BudgetExceeded(HarnessError):
    """Raised when a limit of `harness budget` is reached and no one can be asked for more."""

    code = "E008"
    exit_code = 75


class InvalidDirectory(UsageError):
    """Raised for a working directory that is missing or not a directory."""

    code = "E006"


class StoreError(HarnessError):
    """Raised when a log cannot be opened, read or written."""

    code = "E007"


class LogLocked(StoreError):
    """Another process writes this log; `holder` names it when it is known."""

    def __init__(self, message: str, *, holder: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


DISTRIBUTION = "harness-agents"
"""It has another name than the import."""


def how_to_install(extra: str) -> str:
    """The command that installs an optional part into this environment, from where Harness itself came."""
    import shlex
    from importlib.util import find_spec

    # An environment of uv has no pip of its own.
    pip = "-m pip install" if find_spec("pip") is not None else ""
    installer = (
        f"{shlex.quote(sys.executable)} {pip}"
        if pip
        else f"uv pip install --python {shlex.quote(sys.executable)}"
    )
    option, source = _source()
    return f"{installer} {option}'{source}[{extra}]'"


def _source() -> tuple[str, str]:
    """The option of pip, and what it is to install: a clone's folder, or the name of the distribution."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        clone = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        return ("-e ", clone) if os.path.isfile(os.path.join(clone, "pyproject.toml")) else ("", DISTRIBUTION)
    folder = unquote(urlsplit(str(origin.get("url", ""))).path)
    if "dir_info" not in origin or not os.path.isdir(folder):
        return "", DISTRIBUTION
    return ("-e " if origin["dir_info"].get("editable") else ""), folder


class MissingExtra(UsageError):
    """An optional part is needed that is not installed; the hint installs it."""

    def __init__(self, message: str, extra: str) -> None:
        super().__init__(message, hint=how_to_install(extra))
