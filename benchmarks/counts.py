"""How large the code is, and how easy to find one's way in: counts, not times.

usage: python benchmarks/counts.py [--list] [FOLDER]      (default: src/harness)

`--list` names the modules and classes behind the counts. A module with one importer must have a reason, which is
printed with it: its folder is a registry, its importer is in another folder, both together would be too long for one
file, or it is large enough to be read alone. Modules that plugins or programs import by name have no importer here.
A public name defined twice, as a class or as an alias of a type, makes "go to symbol" a guess.

A room is a folder or a file directly in the package. Rooms and folders are in a cycle when each can be reached from
the other, by imports of any kind: those inside of functions and those for types alone count too. An exception is a line
of `ignore_imports` in `pyproject.toml`. A lazy import is one inside of a function.
A bare participle says what happened to a thing, and not what it is: `asked` may be a question, a call or a time. The
share is that of all places where a name is bound: parameters, variables, attributes.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bare_words import ANY_ONE, PARTICIPLES

LONGEST_FILE = 600
READ_ALONE = 120
"""From so many lines on a module is taken for one that can be understood alone."""
NO_REASON = "none"


class Module(NamedTuple):
    name: str
    doc: str
    lines: int
    is_package: bool
    classes: tuple[str, ...]
    """Public ones, at the top level."""
    aliases: tuple[str, ...]
    """Public aliases of types, at the top level."""
    imported: frozenset[str]
    """Every dotted name that an import may mean."""
    lazy_imports: int
    bound: Counter[str]
    """Each name, and in how many places it is bound."""
    comment_lines: int

    @property
    def room(self) -> str:
        return self.name.rpartition(".")[0]


def read_modules(root: Path) -> dict[str, Module]:
    read = [_read(path, root) for path in sorted(root.rglob("*.py"))]
    return {module.name: module for module in read}


def _read(path: Path, root: Path) -> Module:
    parts = path.relative_to(root.parent).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    text = path.read_text()
    tree = ast.parse(text)
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return Module(
        ".".join(parts[:-1] if is_package else parts),
        ast.get_docstring(tree) or "",
        text.count("\n"),
        is_package,
        tuple(name for name in classes if not name.startswith("_")),
        tuple(_aliases(tree)),
        frozenset(_imported(tree)),
        _lazy_imports(tree),
        Counter(_bound(tree)),
        _comment_lines(text),
    )


def _aliases(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_alias = ast.unparse(node.annotation).endswith("TypeAlias")
            if is_alias and not node.target.id.startswith("_"):
                yield node.target.id


def _lazy_imports(tree: ast.Module) -> int:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    imports = {
        inner
        for function in functions
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    return len(imports)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Parameters, variables and attributes, once for each place that binds one. An underscore in front says nothing."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.MatchAs(name=str(name)):
                yield name.lstrip("_")
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name.lstrip("_")
            case _:
                pass


def _comment_lines(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return len(
        {token.start[0] for token in tokens if token.type == tokenize.COMMENT and "noqa" not in token.string}
    )


def _imported(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def importers_of(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Module → the modules that import it. `from a import b` means the module `a.b` where there is one, else `a`."""
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for module in modules.values():
        for name in module.imported:
            target = name if name in modules else name.rpartition(".")[0]
            if target in modules and target != module.name:
                importers[target].add(module.name)
    return importers


def single_importers(modules: dict[str, Module]) -> dict[str, str]:
    """Module that one other imports → that one. Packages are left out: importing what is in them is no import of them."""
    return {
        name: next(iter(importers))
        for name, importers in importers_of(modules).items()
        if len(importers) == 1 and not modules[name].is_package
    }


def reason_of(name: str, importer: str, modules: dict[str, Module]) -> str:
    """Why a module that only one other imports is a module of its own."""
    module, other = modules[name], modules[importer]
    folder = modules.get(module.room)
    if folder is not None and "one file" in folder.doc.lower():
        return "registry"
    if importer == module.room:
        return "its package"
    if other.room != module.room:
        return "other folder"
    if module.lines + other.lines > LONGEST_FILE:
        return "too long together"
    return "read alone" if module.lines > READ_ALONE else NO_REASON


def repeated_classes(modules: dict[str, Module]) -> dict[str, list[str]]:
    return _repeated({module.name: module.classes for module in modules.values()})


def repeated_names(modules: dict[str, Module]) -> dict[str, list[str]]:
    """Classes and aliases of types together."""
    return _repeated({module.name: (*module.classes, *module.aliases) for module in modules.values()})


def _repeated(names: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for module, defined in names.items():
        for name in defined:
            places[name].append(module)
    return {name: homes for name, homes in sorted(places.items()) if len(homes) > 1}


def room_of(module: Module) -> str:
    return ".".join(module.name.split(".")[:2])


def folder_of(module: Module) -> str:
    return module.name if module.is_package else module.room


def cycles(modules: dict[str, Module], group_of: Callable[[Module], str]) -> list[list[str]]:
    """Groups that can reach each other through imports, each such set once. The package itself is left out."""
    root = min(modules, key=len)
    reached: dict[str, set[str]] = defaultdict(set)
    for target, importers in importers_of(modules).items():
        for importer in importers:
            source, goal = group_of(modules[importer]), group_of(modules[target])
            if root not in {source, goal} and source != goal:
                reached[source].add(goal)
    everything = {group: _reachable(group, reached) for group in reached}
    sets = {
        tuple(sorted(other for other in everything[group] if group in everything.get(other, ())))
        for group in everything
        if group in everything[group]
    }
    return sorted(map(list, sets))


def _reachable(start: str, reached: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(reached[start])
    while waiting:
        group = waiting.pop()
        if group not in seen:
            seen.add(group)
            waiting += reached.get(group, ())
    return seen


def import_exceptions(root: Path) -> int:
    settings = next(
        (folder / "pyproject.toml" for folder in root.parents if (folder / "pyproject.toml").is_file()), None
    )
    if settings is None:
        return 0
    linter = tomllib.loads(settings.read_text()).get("tool", {}).get("importlinter", {})
    return sum(len(contract.get("ignore_imports", ())) for contract in linter.get("contracts", ()))


def untested_folders(modules: dict[str, Module], root: Path) -> list[str]:
    """Folders of the package that have no folder of tests, or of recordings that are tests, under the same path."""
    tests = root.parents[1] / "tests"
    folders = sorted({folder_of(module) for module in modules.values()} - {root.name})
    places = {name: tests / Path(*name.split(".")[1:]) for name in folders}
    return [
        name
        for name, place in places.items()
        if not any(place.glob("**/test_*.py")) and not any(place.glob("*/*/meta.json"))
    ]


def participles(modules: dict[str, Module]) -> Counter[str]:
    bound = sum((module.bound for module in modules.values()), Counter[str]())
    return Counter({name: count for name, count in bound.items() if name in PARTICIPLES or name == ANY_ONE})


def share(part: int, whole: int) -> str:
    return f"{part:,} ({part / max(whole, 1):.2%})"


def sizes(modules: dict[str, Module]) -> dict[str, object]:
    longest = max(modules.values(), key=lambda module: module.lines)
    single = single_importers(modules)
    near = [name for name, importer in single.items() if modules[name].room == modules[importer].room]
    reasons = Counter(reason_of(name, importer, modules) for name, importer in single.items())
    lines = sum(module.lines for module in modules.values())
    return {
        "files": len(modules),
        "lines": lines,
        "lines of the longest file": f"{longest.lines:,} ({longest.name})",
        "lines with a comment": share(sum(module.comment_lines for module in modules.values()), lines),
        "modules with one importer": len(single),
        "… which is in the same folder": len(near),
        "… lines of these": sum(modules[name].lines for name in near),
        **{f"… reason: {reason}": count for reason, count in reasons.most_common()},
    }


def structure(modules: dict[str, Module], root: Path) -> dict[str, object]:
    bound, bare = sum(module.bound.total() for module in modules.values()), participles(modules)
    folders = {folder_of(module) for module in modules.values()} - {root.name}
    return {
        "rooms": len({room_of(module) for module in modules.values()}) - 1,
        "… in cycles": _in_cycles(cycles(modules, room_of)),
        "folders in cycles": _in_cycles(cycles(modules, folder_of)),
        "modules in cycles": _in_cycles(cycles(modules, lambda module: module.name)),
        "exceptions of the import contracts": import_exceptions(root),
        "lazy imports": sum(module.lazy_imports for module in modules.values()),
        "folders without tests of that name": f"{len(untested_folders(modules, root))} of {len(folders)}",
        "public classes": sum(len(module.classes) for module in modules.values()),
        "class names defined more than once": len(repeated_classes(modules)),
        "… with aliases of types": len(repeated_names(modules)),
        "bare participles": share(bare.total() - bare[ANY_ONE], bound),
        "`one`": share(bare[ANY_ONE], bound),
    }


def _in_cycles(groups: list[list[str]]) -> str:
    return f"{sum(map(len, groups))} in {len(groups)}"


def print_lists(modules: dict[str, Module], root: Path) -> None:
    for name, importer in sorted(single_importers(modules).items()):
        print(f"{modules[name].lines:5} {name} ← {importer} ({reason_of(name, importer, modules)})")
    for title, group_of in (("rooms", room_of), ("folders", folder_of)):
        for members in cycles(modules, group_of):
            print(f"cycle of {title}: {', '.join(members)}")
    for name, places in repeated_names(modules).items():
        print(f"{name}: {', '.join(places)}")
    print("without tests of that name:", ", ".join(untested_folders(modules, root)))
    print("bare:", ", ".join(f"{name} {count}" for name, count in participles(modules).most_common()))


def main(arguments: list[str]) -> int:
    folders = [argument for argument in arguments if not argument.startswith("-")]
    root = Path(folders[0] if folders else Path(__file__).parents[1] / "src" / "harness").resolve()
    modules = read_modules(root)
    for title, count in (sizes(modules) | structure(modules, root)).items():
        print(f"{title:36} {count:>8,}" if isinstance(count, int) else f"{title:36} {count:>8}")
    if "--list" in arguments:
        print_lists(modules, root)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
