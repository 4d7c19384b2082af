"""The surroundings of the tests: a home folder of their own, and none of the settings of whoever runs them."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import time

import pytest

TOOLS = os.path.join(sys.prefix, "tools")
"""What `make tools` has fetched, for what this system does not have."""
_SWITCHES = ("HARNESS_SYSTEM", "HARNESS_CHANGED_LOGS", "HARNESS_REWRITE", "HARNESS_MUTATIONS", "HARNESS_KILLS", "HARNESS_CHAOS", "HARNESS_SHOTS", "HARNESS_AGENT_CACHE", "HARNESS_UNDO_TURNS")  # fmt: skip
"""What the tests themselves are told by."""
_SETTINGS = (
    "BASH_FUNC_", "HARNESS_", "XDG_", "GIT_", "CLAUDE", "CODEX_", "OPENCODE", "KILO", "GOOSE_", "GEMINI_", "QWEN_", "KIMI_", "COPILOT_",
    "CLINE_", "DROID_", "FACTORY_", "GROK_", "PI_", "AIDER_", "CURSOR_", "MSWEA_", "ANTHROPIC_", "OPENAI_", "RAY_",
)  # fmt: skip
"""How people tell Harness, git and agents where their files are, and who they are."""
_OF_A_TERMINAL = (
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR_FORCE",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "LANGUAGE",
)
_OF_A_SHELL = (
    "CDPATH", "ENV", "BASH_ENV", "GLOBIGNORE", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "PROMPT_COMMAND", "PS4", "ZDOTDIR",
    "RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "LESSOPEN", "LD_PRELOAD", "LD_AUDIT", "GCONV_PATH", "LOCPATH", "TREE_COLORS", "MAGIC",
)  # fmt: skip
"""By which a shell and its programs do something else than they say. A function that a shell exports is one as well."""


def prepare() -> None:
    """For this process and all that it starts. Each worker has a folder of its own."""
    for name in list(os.environ):
        if (name.startswith(_SETTINGS) and name not in _SWITCHES) or name in (*_OF_A_TERMINAL, *_OF_A_SHELL):
            del os.environ[name]
    home = tempfile.mkdtemp(prefix="harness-home-")
    atexit.register(_remove, home, os.getpid())
    os.environ["HOME"] = home
    os.environ["LC_ALL"] = "C.UTF-8"  # programs speak as the tests expect
    os.environ["HARNESS_UNDO"] = "false"  # most runs of tests are not about their files
    os.environ["TZ"] = "UTC"
    time.tzset()  # what was read from the variable before stays until then
    folders = [*os.environ["PATH"].split(os.pathsep), *filter(os.path.isdir, [TOOLS])]
    os.environ["PATH"] = os.pathsep.join(map(_visible, folders))
    os.umask(0o022)


def _visible(folder: str) -> str:
    """The folder, or links to its programs elsewhere: commands in a sandbox have a /tmp of their own."""
    if not os.path.realpath(folder).startswith("/tmp/"):
        return folder
    links = tempfile.mkdtemp(prefix="harness-path-", dir="/var/tmp")
    os.chmod(links, 0o755)
    atexit.register(_remove, links, os.getpid())
    for program in os.scandir(folder):
        os.symlink(os.path.realpath(program.path), os.path.join(links, program.name))
    return links


def _remove(home: str, process_id: int) -> None:
    if os.getpid() == process_id:  # not a child of the tests
        shutil.rmtree(home, ignore_errors=True)


def use_programs_of_the_system(patch: pytest.MonkeyPatch) -> None:
    """For a test of what is known of `ls` and `cat`: another folder of PATH may have its own."""
    patch.setenv("PATH", "/usr/bin:/bin")
    patch.delenv("LD_LIBRARY_PATH", raising=False)
