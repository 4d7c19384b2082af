"""What `import harness` offers is what `__all__` says: no more, no less, for programs and type checkers alike."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import FunctionType, ModuleType
from typing import get_args, get_type_hints

import pytest

import harness
from harness import moved
from public_surface import parameters, public_classes, public_methods
from source_tree import expect_none

NAMES: list[str] = harness.__all__
SHORTEST_DOCSTRING = 15
FEW_PARAMETERS = 3


def _imported_names() -> dict[str, str]:
    """Name to module, of every `from … import …` of the package itself, those for type checkers included."""
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
    from harness.contracts.request import Options, Request

    wanted = get_type_hints(Request)
    assert {name: wanted.pop(name) for name in ("agent", "prompt")}
    assert get_type_hints(Options) == wanted


def test_everything_public_has_a_docstring() -> None:
    """So that an editor explains what it completes. An inherited docstring counts for a method, not for a class."""
    missing = [
        f"{cls.__module__}.{cls.__name__}"
        for cls in public_classes()
        if len(vars(cls).get("__doc__") or "") < SHORTEST_DOCSTRING
    ]
    missing += [
        f"{cls.__module__}.{cls.__name__}.{name}"
        for cls in public_classes()
        for name, _ in public_methods(cls)
        if len(inspect.getdoc(getattr(cls, name)) or "") < SHORTEST_DOCSTRING
    ]
    expect_none(missing)


def test_the_docstring_of_a_function_with_many_parameters_names_them_all() -> None:
    exported = {name: getattr(harness, name) for name in NAMES}
    functions = {name: value for name, value in exported.items() if isinstance(value, FunctionType)}
    for name, cls in exported.items():
        for ancestor in inspect.getmro(cls) if inspect.isclass(cls) else ():
            if ancestor.__module__.startswith("harness."):
                functions |= {f"{name}.{method}": made for method, made in public_methods(ancestor)}
    expect_none(
        [
            f"{name}: {parameter}"
            for name, function in functions.items()
            for parameter in parameters(function)
            if len(parameters(function)) > FEW_PARAMETERS and parameter not in (function.__doc__ or "")
        ]
    )


SMALL_PROGRAMS = {
    "closed_union": "for event in harness.start(harness.Request(agent='pi')):\n    reveal_type(event)",
    "wrong_name": "harness.Reqest",
    "wrong_option": "async def main() -> None:\n    await harness.run(agent='pi', prompt='x', cdw='.')",
}
UNIONS = ("AnyEvent", "SessionEvent")


def _members(union: str) -> list[type]:
    return sorted(get_args(getattr(harness, union)), key=lambda one: str(one.__name__))


def _match_over(union: str, members: list[type]) -> str:
    cases = [f"        case {one.__module__}.{one.__name__}():\n            return 1" for one in members]
    modules = "\n".join(f"import {name}" for name in sorted({one.__module__ for one in _members(union)}))
    body = "\n".join([*cases, "        case _:\n            assert_never(event)"])
    function = f"def one(event: harness.{union}) -> int:\n    match event:\n{body}\n"
    return f"from typing import assert_never\n\n{modules}\n\n\n{function}"


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What mypy says of each program. It looks at all of them at once: most of its time is for the package."""
    from mypy import api

    programs = dict(SMALL_PROGRAMS)
    for union in UNIONS:
        programs[f"{union}_whole"] = _match_over(union, _members(union))
        programs[f"{union}_less"] = _match_over(union, _members(union)[:-1])
    folder = tmp_path_factory.mktemp("programs")
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(f"import harness\n\n{text}\n")
    found = api.run([*map(str, folder.iterdir()), "--strict", "--no-error-summary"])[0]
    return {name: "\n".join(line for line in found.split("\n") if f"{name}.py:" in line) for name in programs}


def test_an_editor_knows_what_it_is_given(complaints: dict[str, str]) -> None:
    assert "SessionStart | " in complaints["closed_union"]
    assert '"cdw"' in complaints["wrong_option"]
    assert 'no attribute "Reqest"' in complaints["wrong_name"]


def test_completion_without_a_type_checker_sees_the_names() -> None:
    """jedi, which IPython uses, skips what a constant excludes; of a variable with a type it follows both ways."""
    tree = ast.parse(Path(harness.__file__).read_text(encoding="utf-8"))
    assert [ast.unparse(node) for node in tree.body if isinstance(node, ast.AnnAssign)] == [
        "TYPE_CHECKING: bool = False"
    ]


@pytest.mark.parametrize("union", UNIONS)
def test_a_match_over_all_events_is_exhaustive(union: str, complaints: dict[str, str]) -> None:
    """With a case for every member a type checker finds nothing left; without the last it names that one."""
    assert complaints[f"{union}_whole"] == ""
    assert _members(union)[-1].__name__ in complaints[f"{union}_less"]


@pytest.mark.parametrize("name", sorted(moved.MOVED))
def test_a_module_can_be_imported_under_the_name_that_documents_once_gave_it(name: str) -> None:
    assert importlib.import_module(name) is importlib.import_module(moved.MOVED[name])
    assert importlib.import_module(moved.MOVED[name]).__spec__.name == moved.MOVED[name]
