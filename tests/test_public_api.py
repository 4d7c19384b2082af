"""What `import harness` offers is what `__all__` says: no more, no less, for programs and type checkers alike."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

import harness

NAMES: list[str] = getattr(harness, "__all__", [])

pytestmark = pytest.mark.skipif(not NAMES, reason="harness has no public names yet")


def _imported_names() -> dict[str, str]:
    """Name to module, of every `from … import …` of the front door, those for type checkers included."""
    tree = ast.parse(Path(harness.__file__).read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module not in {"__future__", "importlib", "typing"}
        for alias in node.names
    }


def test_public_names_are_sorted_and_named_once() -> None:
    assert sorted(set(NAMES)) == NAMES


def test_importing_all_names_gives_exactly_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from harness import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(NAMES)


def test_nothing_else_is_public() -> None:
    ours = {
        name
        for name, value in vars(harness).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and name not in {"annotations", "TYPE_CHECKING"}
    }
    assert ours <= set(NAMES)


def test_type_checkers_see_the_same_things_as_programs() -> None:
    imported = _imported_names()
    written_here = {name for name in NAMES if name in vars(harness) and name.startswith("__")}
    assert set(imported) | written_here == set(NAMES)
    for name, module in imported.items():
        assert getattr(harness, name) is getattr(importlib.import_module(module), name), name


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    missing = "no_such_name"
    with pytest.raises(AttributeError, match=missing):
        getattr(harness, missing)


def test_the_package_is_typed() -> None:
    assert Path(harness.__file__).with_name("py.typed").is_file()


def test_the_options_of_a_run_are_the_fields_of_a_request() -> None:
    from typing import get_type_hints

    from harness.sources.request import Options, Request

    wanted = get_type_hints(Request)
    assert {name: wanted.pop(name) for name in ("agent", "prompt")}
    assert get_type_hints(Options) == wanted


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        (
            "for event in harness.start(harness.Request(agent='pi')):\n    reveal_type(event)",
            "SessionStart | ",
        ),
        ("async def main() -> None:\n    await harness.run(agent='pi', prompt='x', cdw='.')", '"cdw"'),
    ],
    ids=["events are a closed union", "options are checked"],
)
def test_an_editor_knows_what_it_is_given(program: str, complaint: str, tmp_path: Path) -> None:
    from mypy import api

    path = tmp_path / "program.py"
    path.write_text(f"import harness\n\n{program}\n")
    out, _, _ = api.run([str(path), "--strict", "--no-error-summary", "--follow-imports=silent"])
    assert complaint in out


@pytest.mark.parametrize("union", ["AnyEvent", "SessionEvent"])
def test_a_match_over_all_events_is_exhaustive(union: str, tmp_path: Path) -> None:
    """With a case for every member a type checker finds nothing left; without the last it names that one."""
    from typing import get_args

    from mypy import api

    members = sorted(get_args(getattr(harness, union)), key=lambda one: str(one.__name__))
    cases = [f"        case {one.__module__}.{one.__name__}():\n            return 1" for one in members]
    modules = "\n".join(f"import {name}" for name in sorted({one.__module__ for one in members}))
    head = f"from typing import assert_never\n\nimport harness\n{modules}\n\n"
    found = []
    for count, part in enumerate((cases, cases[:-1])):
        body = "\n".join([*part, "        case _:\n            assert_never(event)"])
        path = tmp_path / f"program_{count}.py"
        path.write_text(f"{head}\ndef one(event: harness.{union}) -> int:\n    match event:\n{body}\n")
        found.append(api.run([str(path), "--strict", "--no-error-summary", "--follow-imports=silent"])[0])
    assert found[0] == ""
    assert members[-1].__name__ in found[1]
