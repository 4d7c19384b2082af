"""The vocabulary is closed, uniform, and handled whole."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest

import harness.events
from bare_words import ANY_ONE, PARTICIPLES
from harness.events import AnyEvent, Event, Operation, Steering
from source_tree import expect_none, package_modules

EVENTS: tuple[type[Event], ...] = get_args(AnyEvent)
OPERATIONS: tuple[type[msgspec.Struct], ...] = get_args(Operation)


def _subclasses(cls: type[Event]) -> Iterator[type[Event]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def test_every_event_class_is_in_the_union_and_exported() -> None:
    for module in pkgutil.iter_modules(harness.events.__path__, "harness.events."):
        importlib.import_module(module.name)
    defined = {cls for cls in _subclasses(Event) if cls.__module__.startswith("harness.")} - {Steering}
    assert defined == set(EVENTS)
    assert {cls.__name__ for cls in EVENTS} <= set(harness.events.__all__)


@pytest.mark.parametrize("event", EVENTS, ids=lambda cls: cls.__name__)
def test_the_type_on_the_wire_is_the_name_of_the_class(event: type[Event]) -> None:
    config = event.__struct_config__
    assert (config.tag_field, config.tag) == ("type", event.__name__)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda cls: cls.__name__)
def test_the_kind_of_an_operation_is_the_name_of_its_class(operation: type[msgspec.Struct]) -> None:
    config = operation.__struct_config__
    assert (config.tag_field, config.tag) == ("kind", operation.__name__.lower())


@pytest.mark.parametrize("struct", [*EVENTS, *OPERATIONS], ids=lambda cls: cls.__name__)
def test_what_is_recorded_never_changes_and_leaves_out_what_was_not_said(
    struct: type[msgspec.Struct],
) -> None:
    config = struct.__struct_config__
    assert config.frozen
    assert config.omit_defaults


def test_every_match_on_events_or_operations_says_what_becomes_of_the_rest() -> None:
    """With `assert_never` as the last case, mypy names each match that a new event must be added to."""
    vocabulary = {cls.__name__ for cls in (*EVENTS, *OPERATIONS)}
    open_ended = [
        f"{module.name}:{node.lineno}"
        for module in package_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Match) and _classes(node) & vocabulary and not _has_last_case(node)
    ]
    expect_none(open_ended)


def _classes(match: ast.Match) -> set[str]:
    """The classes that the cases themselves name, alone or as alternatives, not inside of other patterns."""
    patterns = [case.pattern for case in match.cases]
    alternatives = [
        inner
        for outer in patterns
        for inner in (outer.patterns if isinstance(outer, ast.MatchOr) else [outer])
    ]
    return {
        ast.unparse(pattern.cls).rpartition(".")[2]
        for pattern in alternatives
        if isinstance(pattern, ast.MatchClass)
    }


def _has_last_case(match: ast.Match) -> bool:
    last = match.cases[-1]
    return isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None


PRIVATE_WORDS = frozenset(
    [
        "Around",
        "Beginning",
        "Bench",
        "Binding",
        "Bound",
        "Course",
        "Desk",
        "Door",
        "Errand",
        "Extras",
        "Keeping",
        "Lane",
        "Meaning",
        "Notebook",
        "Outlet",
        "Patience",
        "Rehearsal",
        "Remembering",
        "Rider",
        "Rooms",
        "Said",
        "Seams",
        "Sidecar",
        "Skim",
        "Standing",
        "Trial",
        "Untold",
        "Veil",
        "Ways",
    ]
)
"""Metaphors that had to be learnt before the code could be read; `docs/glossary.md` has the words in their place."""


def test_no_class_or_module_has_a_private_word_for_a_name() -> None:
    classes = [
        f"{module.name}: class {node.name}"
        for module in package_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and node.name in PRIVATE_WORDS
    ]
    modules = [module.name for module in package_modules() if module.path.stem.title() in PRIVATE_WORDS]
    expect_none(classes + modules)


ALLOWED_PARTICIPLES = {
    "agents": 8,
    "approvals": 6,
    "cli": 18,
    "clients": 45,
    "config": 1,
    "contracts": 1,
    "conversation": 6,
    "events": 6,
    "fleet": 14,
    "folds": 18,
    "formats": 2,
    "gateway": 8,
    "lab": 7,
    "log": 15,
    "models": 3,
    "native": 21,
    "protocols": 4,
    "runs": 29,
    "sandbox": 2,
    "server": 6,
    "session": 96,
    "testing": 1,
    "tui": 15,
    "undo": 7,
    "views": 2,
    "workspace": 1,
}
"""In how many places each room may still bind one as a parameter, variable or attribute. Lower it when you rename some; a
room that is not listed may have none. `benchmarks/counts.py` prints their share."""


def test_what_is_bound_is_named_after_what_it_is() -> None:
    rooms: dict[str, list[str]] = {}
    for module in package_modules():
        room = module.inside_package.partition("/")[0].removesuffix(".py")
        bare = [name for name in _bound(module.tree) if name.lstrip("_") in PARTICIPLES]
        rooms.setdefault(room, []).extend(f"{module.name}: {name}" for name in bare)
    expect_none(
        [
            f"{room}/ has {len(names)} such names, and may have {ALLOWED_PARTICIPLES.get(room, 0)}: {', '.join(names)}"
            for room, names in rooms.items()
            if len(names) > ALLOWED_PARTICIPLES.get(room, 0)
        ]
    )


def test_nothing_is_bound_to_a_name_that_fits_anything() -> None:
    expect_none(
        [
            module.name
            for module in package_modules()
            if ANY_ONE in {name.strip("_") for name in _bound(module.tree)}
        ]
    )


def _bound(tree: ast.Module) -> Iterator[str]:
    """Once for each place."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.MatchAs(name=str(name)):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass
