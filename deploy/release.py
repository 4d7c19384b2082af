"""Builds what a release consists of into dist/: wheel, sdist, and a list of everything in it (`make dist`).

usage: python deploy/release.py

The wheel has a manual page and completions for three shells, made here from the command line itself, so that they are never
older than it. Built twice from one commit, all files are the same to the byte.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from importlib.metadata import PackageNotFoundError, files, metadata
from pathlib import Path

from harness.cli import parser
from harness.version import __version__

ROOT = Path(__file__).parent.parent
SHARE = ROOT / "build" / "share"
DIST = ROOT / "dist"
COMPLETIONS = {
    "bash": "bash-completion/completions/harness",
    "zsh": "zsh/site-functions/_harness",
    "fish": "fish/vendor_completions.d/harness.fish",
}
PIN = re.compile(r"^([\w.-]+)==([^\s;]+)(?=\s)(?! ; .*sys_platform == '(?:win32|emscripten)')", re.MULTILINE)
"""Without what only systems need on which Harness does not run."""
PAGE_PIN = re.compile(r"^## (\S+) - (\S+) \(([^)]+)\)$", re.MULTILINE)
MANUAL = """\
.TH HARNESS 1 "{date}" "harness {version}" "User Commands"
.SH NAME
harness \\- run, watch, steer, record and compare coding agents
.SH SYNOPSIS
.B harness
.I COMMAND
[\\fIOPTIONS\\fR]
.SH DESCRIPTION
{description}
.PP
.B harness
.I COMMAND
.B \\-\\-help
shows the options of a command.
.SH COMMANDS
{commands}
.SH EXIT STATUS
{exit_codes}
.SH ENVIRONMENT
.TP
.B XDG_DATA_HOME, XDG_CONFIG_HOME, XDG_CACHE_HOME
where sessions, settings and caches are; in each, the folder
.IR harness .
.TP
.B HARNESS_SERVER_TOKEN
the token of
.B harness serve
.TP
.B NO_COLOR
no colours
.SH FILES
.TP
.I ~/.config/harness/config.toml
your settings
.TP
.I ~/.local/share/harness/sessions
the logs of all sessions
"""


def main() -> int:
    os.environ["COLUMNS"] = "100"  # help texts are wrapped to the terminal, whose width must not matter here
    stamp = _git("log", "-1", "--format=%ct")
    os.environ["SOURCE_DATE_EPOCH"] = stamp
    _write(SHARE / "man/man1/harness.1", _manual(_git("log", "-1", "--format=%cs")))
    for shell, place in COMPLETIONS.items():
        done = subprocess.run(
            [sys.executable, "-m", "harness", "completion", shell], capture_output=True, text=True, check=True
        )
        _write(SHARE / place, done.stdout)
    DIST.mkdir(exist_ok=True)
    for old in DIST.iterdir():
        old.unlink()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", DIST], cwd=ROOT, check=True)
    _write(
        DIST / f"harness-agents-{__version__}.cdx.json", json.dumps(_parts(), indent=1, sort_keys=True) + "\n"
    )
    return 0


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _manual(date: str) -> str:
    commands = "\n".join(
        f".TP\n.B harness {_roff(name)}\n{_roff(parser.load(name).SUMMARY)}" for name in parser.names()
    )
    return MANUAL.format(
        date=date,
        version=__version__,
        description=_roff(parser.DESCRIPTION),
        commands=commands,
        exit_codes=_roff(parser.EXIT_CODES.strip()).replace("\n", "\n.br\n"),
    )


def _roff(text: str) -> str:
    """As text: a backslash, a hyphen and a dot or quote at the beginning of a line mean something else there."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def _parts() -> dict[str, object]:
    """The software bill of materials, as CycloneDX 1.6: what is locked for Python, and what is in the built page."""
    pins = PIN.findall((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    page = (ROOT / "src/harness/server/page/licenses.md").read_text(encoding="utf-8")
    components = [_component("pypi", name, version, _license(name)) for name, version in pins]
    components += [
        _component("npm", name, version, license_id) for name, version, license_id in PAGE_PIN.findall(page)
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'harness-agents {__version__}')}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "harness-agents", "version": __version__}},
        "components": components,
    }


def _component(kind: str, name: str, version: str, license_name: str) -> dict[str, object]:
    purl = f"pkg:{kind}/{name.replace('@', '%40')}@{version}"
    licenses = [{"license": {"name": license_name}}] if license_name else []
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": purl,
        "bom-ref": purl,
        "licenses": licenses,
    }


def _license(name: str) -> str:
    """What the installed package says of itself; empty where it is not installed here or says nothing."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return ""
    stated = about.get("License-Expression") or about.get("License") or ""
    if stated and "\n" not in stated:
        return stated
    classifiers = about.get_all("Classifier") or []
    stated = next((one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")), "")
    return stated or _license_title(name)


def _license_title(name: str) -> str:
    """How the license that a package has as a file begins: some say it nowhere else."""
    for path in files(name) or ():
        if path.name in ("LICENSE", "LICENSE.txt", "LICENSE.md"):
            lines = path.locate().read_text(encoding="utf-8").split("\n")
            return ", ".join([line.strip() for line in lines if line.strip()][:2])
    return ""


if __name__ == "__main__":
    sys.exit(main())
