"""How large the code is, and how easy to find one's way in: counts, not times.

usage: python benchmarks/counts.py [--list] [FOLDER]      (default: src/harness)

`--list` names the modules and classes behind the counts. A module with one importer must have a reason, which is
printed with it: its folder is a registry, its importer is in another folder, both together would be too long for one
file, or it is large enough to be read alone. Modules that plugins or programs import by name have no importer here.
A class name defined twice makes "go to symbol" a guess.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

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
    imported: frozenset[str]
    """Every dotted name that an import may mean."""

    @property
    def room(self) -> str:
        return self.name.rpartition(".")[0]


def read_modules(root: Path) -> dict[str, Module]:
    found = [_read(path, root) for path in sorted(root.rglob("*.py"))]
    return {module.name: module for module in found}


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
        frozenset(_imported(tree)),
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
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for name in module.classes:
            places[name].append(module.name)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def main(arguments: list[str]) -> int:
    folders = [argument for argument in arguments if not argument.startswith("-")]
    root = Path(folders[0] if folders else Path(__file__).parents[1] / "src" / "harness").resolve()
    modules = read_modules(root)
    single, repeated = single_importers(modules), repeated_classes(modules)
    near = [name for name, importer in single.items() if modules[name].room == modules[importer].room]
    reasons = {name: reason_of(name, importer, modules) for name, importer in single.items()}
    longest = max(modules.values(), key=lambda module: module.lines)
    rows: dict[str, object] = {
        "files": len(modules),
        "lines": sum(module.lines for module in modules.values()),
        "lines of the longest file": f"{longest.lines:,} ({longest.name})",
        "modules with one importer": len(single),
        "… which is in the same folder": len(near),
        "… lines of these": sum(modules[name].lines for name in near),
        **{f"… reason: {reason}": count for reason, count in Counter(reasons.values()).most_common()},
        "public classes": sum(len(module.classes) for module in modules.values()),
        "class names defined more than once": len(repeated),
    }
    for title, count in rows.items():
        print(f"{title:36} {count:>8,}" if isinstance(count, int) else f"{title:36} {count:>8}")
    if "--list" in arguments:
        for name, importer in sorted(single.items()):
            print(f"{modules[name].lines:5} {name} ← {importer} ({reasons[name]})")
        for name, places in repeated.items():
            print(f"{name}: {', '.join(places)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
