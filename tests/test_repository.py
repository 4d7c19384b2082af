"""The repository is self-contained: it builds anywhere, does not say where it was made, and its parts agree."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from source_tree import PACKAGE, ROOT, expect_none

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

# In pieces, so that this file does not contain what it looks for.
REGISTRY_HOSTS = [
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("yarnpkg", "com"),
    ("crates", "io"),
    ("rubygems", "org"),
    ("anaconda", "org"),
    ("golang", "org"),
    ("jsr", "io"),
    ("ghcr", "io"),
    ("docker", "io"),
]
PLACES_OF_DEVELOPMENT = [
    ("/work", "/main"),
    ("/work", "/shared"),
    ("..", "/shared"),
    ("helper", "_preamble"),
]
# Recordings are the agents' own words; ours may not say these.
WORDS_OF_DEVELOPMENT = [
    ("spec", "/00"),
    ("seeds", "/00"),
    ("DESIGN", ".md"),
    ("STYLE", ".md"),
    ("ecosystem", ".md"),
    ("peers", ".md"),
    ("claude-codex", ".md"),
    ("Co-Authored", "-By"),
    ("Generated", " with"),
    ("AI-", "generated"),
    ("written by", " an AI"),
    ("written by", " Claude"),
    ("coding", " session that wrote"),
]


def _ignored() -> set[str]:
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split("\n")
    return {".git", *(line.strip("/") for line in lines if line and not line.startswith("#"))}


def _files() -> Iterator[Path]:
    """Every file that git would take, also in a copy that is no git repository."""
    ignored = _ignored()
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = sorted(set(subfolders) - ignored)
        yield from (
            Path(folder, name) for name in sorted(names) if not name.endswith(".pyc") and name not in ignored
        )


def _mentions(pieces: Iterable[tuple[str, ...]], joint: str, *, recordings: bool) -> list[str]:
    words = [joint.join(parts).lower().encode() for parts in pieces]
    found: list[str] = []
    for path in _files():
        if recordings or not path.is_relative_to(ROOT / "tests" / "agents"):
            text = path.read_bytes().lower()
            found += [f"{path.relative_to(ROOT)}: {word.decode()}" for word in words if word in text]
    return found


def _pins(lock: str = "requirements.lock") -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    }


def _wanted() -> list[Requirement]:
    project = PROJECT["project"]
    extras = project.get("optional-dependencies", {}).values()
    dev = PROJECT["dependency-groups"]["dev"]
    asked = [project["dependencies"], PROJECT["build-system"]["requires"], *extras, dev]
    return [Requirement(line) for lines in asked for line in lines]


def test_no_file_names_the_host_of_a_package_registry() -> None:
    expect_none(_mentions(REGISTRY_HOSTS, ".", recordings=True))


def test_no_file_says_where_or_how_it_was_made() -> None:
    expect_none(_mentions(PLACES_OF_DEVELOPMENT, "", recordings=True))
    expect_none(_mentions(WORDS_OF_DEVELOPMENT, "", recordings=False))


def test_no_program_of_a_test_has_the_path_of_the_interpreter_in_its_first_line() -> None:
    """Such a line is cut at a blank: `python_programs.python_program` starts from any path."""
    first_line = re.compile(r"#!\{(sys\.executable|python|PYTHON)\b")
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    expect_none([str(path.relative_to(ROOT)) for path, text in texts.items() if first_line.search(text)])


def test_tests_ask_mypy_in_the_words_of_the_check() -> None:
    """With other options it forgets what it knows of the package, and the next check reads all of it again."""
    others = re.compile(r"--(?:follow-imports|config-file)=(?!\(|\|)")
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    expect_none([str(path.relative_to(ROOT)) for path, text in texts.items() if others.search(text)])


def test_the_lock_file_pins_everything_that_the_project_asks_for() -> None:
    pins = _pins()
    unmet = [
        str(wanted)
        for wanted in _wanted()
        if not wanted.specifier.contains(pins.get(canonicalize_name(wanted.name), "0"), prereleases=True)
        or canonicalize_name(wanted.name) not in pins
    ]
    assert unmet == [], "run `make lock`"


def test_what_tools_fetch_is_pinned_and_agrees_with_the_rest() -> None:
    pins, others = _pins("tests/tools.lock"), _pins()
    wanted = [Requirement(line) for line in PROJECT["dependency-groups"]["tools"]]
    assert {canonicalize_name(one.name) for one in wanted} <= set(pins), "run `make lock`"
    assert {name: pin for name, pin in pins.items() if others.get(name, pin) != pin} == {}


@pytest.mark.parametrize("lock", ["requirements.lock", "tests/tools.lock"])
def test_a_lock_file_holds_pins_and_hashes_and_nothing_else(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    entry = re.compile(r"[\w.-]+==[\w.+!-]+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n")
    assert entry.sub("", text) == ""
    assert len(_pins(lock)) == len(entry.findall(text))


def test_every_top_level_module_has_its_layer() -> None:
    contracts = {contract["name"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}
    contract = contracts["Rooms: each imports only those below it"]
    placed = {name.strip(" ()") for layer in contract["layers"] for name in re.split("[|:]", layer)}
    present = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert present - {"__init__", "__main__", "moved"} <= placed


def test_every_verb_of_the_makefile_is_explained_by_make_help() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    explained = re.findall(r"^([a-z-]+):.*## .", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert explained == phony.group(1).split()


def test_continuous_integration_runs_the_commands_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert re.findall(r"^step (?:make --no-print-directory )?(\S+)", text, re.MULTILINE) == [
        "check",
        "newcomer",
        "tools",
        "test",
        "test-portable",
    ]
    assert '"${fresh[@]}" test\n' in text, "a newcomer runs all of them"
    [places] = re.findall(r'^depends="([^"]+)"$', text, re.MULTILINE)
    expect_none([place for place in places.split() if not (ROOT / place).exists()])
    assert os.access(ROOT / ".ci" / "bare", os.X_OK)
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"
