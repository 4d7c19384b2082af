"""The rules of the source tree that a machine can check; each failure lists every offender."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from source_tree import PACKAGE, Module, expect_none, modules, package_modules, uses, uses_in, uses_of

MAXIMUM_FILE_LINES = 600
MAXIMUM_FUNCTION_LINES = 50

NAMES_THAT_SAY_NOTHING = re.compile(r"utils?|helpers?|common|misc|shared|lib|types|managers?|base_.*")

SPAWNERS = {
    "process/child.py",
    "process/watchdog.py",
    "system/namespaces.py",  # the part of the watchdog that starts a program behind a wall
    "process/detached.py",
    "cli/commands/service.py",  # `systemctl --user` of the person who asked for it: nothing of an agent
    "tui/composer.py",  # the person's own $EDITOR, which gets the terminal: nothing of an agent
}
SPAWNING = (
    "subprocess",
    "_posixsubprocess",
    "pty",
    "multiprocessing",
    "concurrent.futures.ProcessPoolExecutor",
    "concurrent.futures.process",
    "asyncio.subprocess",
    "asyncio.create_subprocess_*",
    "?.subprocess_exec",
    "?.subprocess_shell",
    "os.exec*",
    "os.fork*",
    "os.popen",
    "os.posix_spawn*",
    "os.spawn*",
    "os.startfile",
    "os.system",
)

PURE = ("events/", "stage.py", "folds/", "formats/", "formatting/", "views/", "agents/", "protocols/")
NOT_PURE = re.compile(
    # An agent's store is read, and what it is to continue is written: those parts do I/O. So does what finds agents.
    r"agents/registry\.py|agents/\w+/(store|scan|writer)\.py|agents/replay/program\.py"
    r"|protocols/reading/.*|protocols/opencode/(store|writer)\.py"
)
INPUT_OUTPUT_CLOCK_AND_IDS = (
    "asyncio",
    "builtins.input",
    "builtins.open",
    "builtins.print",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "glob",
    "io",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "socket",
    "subprocess",
    "sys.std*",
    "tempfile",
    "threading",
    "time",
    "uuid",
)

LAZY_NAMES = {"__getattr__", "__dir__"}


def _functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_the_rules_see_the_whole_package() -> None:
    seen = {module.path for module in package_modules()}
    assert seen == set(PACKAGE.rglob("*.py"))
    assert PACKAGE / "__init__.py" in seen


def test_no_file_is_longer_than_600_lines() -> None:
    too_long = [
        f"{module.name} has {length} lines"
        for module in modules()
        if (length := module.text.count("\n")) > MAXIMUM_FILE_LINES
    ]
    expect_none(too_long)


def test_no_function_is_longer_than_50_lines() -> None:
    too_long = [
        f"{module.name}:{function.lineno}: {function.name} has {length} lines"
        for module in modules()
        for function in _functions(module)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > MAXIMUM_FUNCTION_LINES
    ]
    expect_none(too_long)


def test_no_lint_rule_about_size_is_silenced() -> None:
    silenced = re.compile(r"noqa(?!:)|noqa:.*\b(C901|PLR0912|PLR0915)\b")
    found = [
        f"{module.name}:{token.start[0]}: {token.string}"
        for module in package_modules()
        if "noqa" in module.text
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline)
        if token.type == tokenize.COMMENT and silenced.search(token.string)
    ]
    expect_none(found)


def test_what_is_silenced_is_a_line_and_never_a_file() -> None:
    """Of `except Exception`, ruff wants a reason at the line (BLE001); of `suppress(Exception)`, this test does."""
    whole_file = re.compile(r"^# (ruff|mypy|flake8|pylint|type): ", re.MULTILINE)
    broad = re.compile(r"suppress\((?:Base)?Exception\):$", re.MULTILINE)
    expect_none(
        [
            f"{module.name}: {match.group()}"
            for module in package_modules()
            for pattern in (whole_file, broad)
            for match in pattern.finditer(module.text)
        ]
    )


def test_every_file_and_folder_is_named_after_what_it_is() -> None:
    meaningless = [
        module.name
        for module in package_modules()
        if any(
            NAMES_THAT_SAY_NOTHING.fullmatch(part)
            for part in (*module.path.relative_to(PACKAGE).parts[:-1], module.path.stem)
        )
    ]
    expect_none(meaningless)


def test_no_public_class_name_is_defined_twice() -> None:
    """So that going to a symbol leads to one place."""
    places = defaultdict(list)
    for module in package_modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    expect_none([f"{name}: {', '.join(found)}" for name, found in twice.items()])


def test_every_module_says_what_it_is_for() -> None:
    expect_none([module.name for module in package_modules() if not ast.get_docstring(module.tree)])


def test_annotations_are_never_evaluated_at_import() -> None:
    """A module of a docstring alone has nothing to annotate."""
    future = "__future__.annotations"
    missing = [
        module.name
        for module in package_modules()
        if len(module.tree.body) > 1 and future not in {name for _, name in uses_in(module.path)}
    ]
    expect_none(missing)


def test_init_files_only_re_export() -> None:
    found = [
        f"{module.name}:{statement.lineno}: {ast.unparse(statement).partition(chr(10))[0]}"
        for module in package_modules()
        if module.is_init
        for statement in module.tree.body
        if not _re_exports(statement, lazily=module.inside_package == "__init__.py")
    ]
    expect_none(found)


def _re_exports(statement: ast.stmt, *, lazily: bool) -> bool:
    """Whether a statement binds names and does nothing else; only that of the package itself may do so lazily."""
    match statement:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign() | ast.AnnAssign():
            return not any(isinstance(node, ast.Call) for node in ast.walk(statement))
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=[]):
            return lazily and all(isinstance(inner, ast.Import | ast.ImportFrom) for inner in statement.body)
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Name(id="TYPE_CHECKING")), orelse=[]):
            return all(_re_exports(inner, lazily=lazily) for inner in statement.body)
        case ast.FunctionDef(name=name):
            return lazily and name in LAZY_NAMES
        case _:
            return False


def test_only_the_process_module_its_watchdog_and_the_editor_of_a_person_spawn() -> None:
    others = [module for module in package_modules() if module.inside_package not in SPAWNERS]
    expect_none([use for module in others for use in uses_of(module, SPAWNING)])


def test_vocabulary_translators_and_views_know_no_files_no_clock_and_no_ids() -> None:
    pure = [
        module
        for module in package_modules()
        if module.inside_package.startswith(PURE) and not NOT_PURE.fullmatch(module.inside_package)
    ]
    expect_none([use for module in pure for use in uses_of(module, INPUT_OUTPUT_CLOCK_AND_IDS)])


def test_lines_are_never_split_at_anything_but_a_line_feed() -> None:
    """`splitlines` also splits at form feeds, U+2028 and others, which occur inside JSON strings."""
    expect_none([use for module in package_modules() for use in uses_of(module, ("*.splitlines",))])


def test_the_names_of_used_things_are_followed_through_aliases() -> None:
    source = (
        "import os as system, os.path\nfrom os import fork as split\nsystem.execv\nb''.splitlines\nopen()"
    )
    assert sorted(uses(ast.parse(source))) == [
        (1, "os"),
        (1, "os"),
        (1, "os.path"),
        (2, "os.fork"),
        (3, "os.execv"),
        (4, "?.splitlines"),
        (5, "builtins.open"),
    ]


def test_interfaces_are_built_on_the_public_session() -> None:
    """What the server needs of a session is public, so that another program can do the same."""
    outside = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "session"]
    expect_none([str(path) for path in outside if ".internals" in path.read_text()])


def test_no_two_test_files_have_the_same_name() -> None:
    """They are imported by their name alone."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    expect_none([name for name, count in names.items() if count > 1])


def test_every_folder_of_tests_is_one_of_the_package() -> None:
    tests = Path(__file__).parent
    data = (tests / "agents", tests / "recordings")
    folders = {path.parent for path in tests.rglob("*.py") if not any(map(path.is_relative_to, data))}
    expect_none(
        [str(each) for each in folders if not (PACKAGE / each.relative_to(tests)).is_dir()],
    )
