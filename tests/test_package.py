"""The built package: its name is ours, what is in it is whole, and each hint installs it and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from harness.version import __version__
from lacking import lacking
from source_tree import ROOT

PLAN = f"harness-agents-{__version__}"

# What needs an extra → the words that ask for it, in an environment that has only the core.
ASKS = {
    "completion": ["-m", "harness", "completion", "bash"],
    "server": ["-m", "harness", "serve"],
    "models": ["-m", "harness", "run", "-a", "native", "-m", "anthropic/m", "-p", "x"],
    "local": ["-m", "harness", "models", "list"],
    "postgres": ["-c", "import harness; harness.open_store('postgresql://127.0.0.1:1/x')"],
    "schema": [
        "-c",
        "import harness; harness.Harness(id='h', modes=[harness.Mode(id='m')], state_schema={'type': 'object'})",
    ],
}


def _run(
    *words: str, env: dict[str, str] | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=check,
        env=env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def python(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has the wheel and its only dependency."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False, symlinks=True)
    interpreter = str(folder / "bin" / "python")
    installed = _run(*_pip(interpreter, dist), "harness-agents")
    if installed.returncode:
        pytest.skip(lacking("package index", installed.stderr.strip()[-200:]))
    return interpreter


def _pip(interpreter: str, dist: Path) -> list[str]:
    pip = [sys.executable, "-m", "pip", "--python", interpreter, "--disable-pip-version-check", "--no-input"]
    return [*pip, "install", "--no-compile", "--find-links", str(dist)]


def test_the_wheel_and_the_source_have_our_name_and_all_of_the_page(dist: Path) -> None:
    names = sorted(path.name for path in dist.iterdir())
    assert names == [f"harness_agents-{__version__}-py3-none-any.whl", f"harness_agents-{__version__}.tar.gz"]
    with tarfile.open(dist / names[1]) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    tracked = _run("git", "-C", str(ROOT), "ls-files", "web").stdout.split()
    assert set(tracked) <= inside
    assert not [name for name in inside if "node_modules" in name]


def test_the_wheel_has_the_extensions_that_pi_loads(dist: Path) -> None:
    [wheel] = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).name for name in archive.namelist()}
    assert {"gate.ts", "question.ts"} <= names


def test_every_hint_installs_our_package_and_no_stranger(python: str, dist: Path, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "sk-ant-none"}
    named = []
    for extra, words in ASKS.items():
        answer = _run(python, *words, env=env)
        hints = re.findall(r"pip install [^']*'([^']+)'", answer.stdout + answer.stderr)
        assert f"harness-agents[{extra}]" in hints, answer.stderr
        named.append(hints[0])
    planned = _run(*_pip(python, dist), "--dry-run", "--force-reinstall", "--no-deps", *named)
    assert f"Would install {PLAN}\n" in planned.stdout, planned.stdout + planned.stderr


def test_what_a_hint_installs_works(python: str, dist: Path, tmp_path: Path) -> None:
    _run(*_pip(python, dist), "harness-agents[completion]", check=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    assert "complete" in _run(python, *ASKS["completion"], env=env).stdout


def test_no_hint_or_document_names_another_package() -> None:
    wrong = re.compile(r"(?:pip3?|uvx?|pipx)\b[^\n`]*\s['\"]?harness(?:\[|['\"\s`]|$)")
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in files
        for line in path.read_text(encoding="utf-8").split("\n")
        if wrong.search(line)
    ]
    assert found == []
