"""Let systemd run `harness serve` for you: from the moment you log in, and again when it fails.

The unit is your own (`systemctl --user`); nothing needs root. Options after `--` are for `harness serve`, for example
`harness service install -- --port 4790`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Sequence

from harness.cli.console import Console
from harness.errors import HarnessError, UsageError

SUMMARY = "run the server as a service of systemd: install, status, uninstall"
DEFAULT_ACTION = "status"
ACTIONS = {
    "install": "write the unit, start it now and at every login",
    "status": "show whether it is installed, and whether it runs",
    "uninstall": "stop it and remove the unit",
    "print": "print the unit without installing it",
}
TAKES_EXTRA = True
UNIT = "harness.service"
_TEMPLATE = """\
[Unit]
Description=Harness: coding agents in one place

[Service]
ExecStart={command}
WorkingDirectory={folder}
# Where agents are found: the PATH of the shell that installed this. That of systemd is shorter.
Environment={path}
Restart=on-failure
RestartSec=5
# Agents get time to end their turns; what is left after that is ended by the server itself.
TimeoutStopSec=30
UMask=0077

[Install]
WantedBy=default.target
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from harness.cli.parser import add_actions

    add_actions(parser, ACTIONS)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.extra and arguments.action not in ("install", "print"):
        raise UsageError("options for `harness serve` go with `install` and `print`", hint="leave them out")
    match arguments.action:
        case "install":
            return _install(arguments.extra, console)
        case "print":
            return _print(arguments.extra)
        case "uninstall":
            return _uninstall(console)
        case _:
            return _status(console)


def unit_of(options: Sequence[str], folder: str) -> str:
    """The text of the unit. Raises UsageError for options that `harness serve` does not take, and names no unit can hold."""
    from harness.cli.parser import parse
    from harness.process.own_program import own_command
    from harness.system.plain_text import plain_text

    parse("serve", options, verbose=False, color="auto")
    command = " ".join(quoted(word).replace("$", "$$") for word in own_command("serve", *options))
    unit = _TEMPLATE.format(command=command, folder=folder.replace("%", "%%"), path=quoted(_search_path()))
    if unit != plain_text(unit):
        raise UsageError(
            f"systemd reads units in UTF-8 alone, and this one names what is not: {plain_text(folder)}, {plain_text(command)}",
            hint="run `harness serve` with what supervises your services",
        )
    return unit


def _search_path() -> str:
    """The PATH here, without what means another folder there, and what a unit cannot name."""
    from harness.system.plain_text import plain_text

    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    usable = [place for place in places if os.path.isabs(place) and place == plain_text(place)]
    return f"PATH={os.pathsep.join(usable)}"


def quoted(word: str) -> str:
    """One word of a unit: systemd knows quotes, backslashes and `%` for its own names; in commands `$`, too."""
    for sign, replacement in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("\n", "\\n")):
        word = word.replace(sign, replacement)
    return f'"{word}"'


def unit_path() -> str:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "systemd", "user", UNIT)


def _print(options: Sequence[str]) -> int:
    from harness.cli.output import write_text

    write_text(unit_of(options, os.path.expanduser("~")))
    return 0


def _install(options: Sequence[str], console: Console) -> int:
    from harness.clients.server_address import require_server

    require_server()
    text, path = unit_of(options, os.path.expanduser("~")), unit_path()
    _require_systemd(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    console.say(f"wrote {path}")
    for words in (("daemon-reload",), ("enable", "--now", UNIT), ("restart", UNIT)):
        if code := _systemctl(*words):
            return code
    console.say(
        "The server runs, and starts again when you log in. `harness serve --link` prints a link for the browser; "
        "`loginctl enable-linger` lets it run while you are logged out."
    )
    return 0


def _uninstall(console: Console) -> int:
    path = unit_path()
    if not os.path.exists(path):
        console.say("it is not installed")
        return 0
    try:
        _require_systemd(path)
    except HarnessError as error:
        os.unlink(path)
        console.say(f"removed {path}; a server that it has started may still run: {error.message}")
        return 0
    _systemctl("disable", "--now", UNIT)
    os.unlink(path)
    _systemctl("daemon-reload")
    console.say(f"removed {path}")
    return 0


def _status(console: Console) -> int:
    path = unit_path()
    if not os.path.exists(path):
        console.say("it is not installed: `harness service install` does that")
        return 1
    console.say(f"installed: {path}")
    _require_systemd(path)
    return _systemctl("--no-pager", "status", UNIT)


def _require_systemd(path: str) -> None:
    if not shutil.which("systemctl"):
        raise HarnessError(
            "systemctl was not found: this system is not run by systemd",
            hint=f"`harness service print` prints the unit, which belongs to {path}; elsewhere, run `harness serve` "
            "with what supervises your services",
        )
    probe = subprocess.run(
        ["systemctl", "--user", "show-environment"], capture_output=True, text=True, check=False
    )
    if probe.returncode:
        raise HarnessError(
            f"systemd does not answer for this account: {probe.stderr.strip() or 'it gives no reason'}",
            hint="log in to it by itself (ssh, or `machinectl shell ACCOUNT@`; `su` starts no systemd), or run "
            "`harness serve` with what supervises your services",
        )


def _systemctl(*words: str) -> int:
    return subprocess.run(["systemctl", "--user", *words], check=False).returncode
