"""The benchmarks can still be run: ours really, the other frameworks as far as their files say."""

from __future__ import annotations

import ast
import asyncio
import os
import shutil
import subprocess
import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


def program(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    spec = util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    return program(monkeypatch, "peers")


def test_every_peer_has_the_same_names(peers: Any) -> None:
    assert peers.peer_names()[:2] == ["harness", "bare"]
    for name in peers.peer_names():
        assert {"TITLE", "PACKAGE", "INSTALL", "IMPORT", "PERSISTS"} <= set(peers.constants_of(name)), name
        tree = ast.parse((FOLDER / "peers" / f"{name}.py").read_text())
        functions = {
            node.name: [argument.arg for argument in node.args.args]
            for node in tree.body
            if isinstance(node, ast.AsyncFunctionDef)
        }
        assert functions["stream"] == ["deltas", "pause"], name
        assert functions["work"] == ["steps", "mark", "folder"], name


@pytest.mark.parametrize("name", ["harness", "bare"])
def test_what_needs_no_installing_can_be_measured(peers: Any, name: str, tmp_path: Path) -> None:
    peer = peers.load(name)
    marks: list[int] = []
    assert asyncio.run(peer.stream(20, peers.tick)) >= 20
    assert asyncio.run(peer.work(3, lambda: marks.append(1), str(tmp_path))) > 3
    assert len(marks) == 4
    assert bool(peer.PERSISTS) is any(tmp_path.iterdir())


def test_the_table_has_ratios_and_says_where_a_run_was_stopped(peers: Any) -> None:
    costs = {
        "harness": {"bulk_us": [2.0, 3.0], "step_990_us": [100.0], "steps": [1000.0]},
        "strands": {"bulk_us": [9.0, 12.0], "steps": [796.0]},
    }
    rows = peers.table(costs, {"harness": "1", "strands": "2"}).split("\n")
    assert rows[2].startswith("| Harness 1 | 2.0–3.0 |")
    assert rows[3].startswith("| strands-agents 2 | **4.5×** (9.0–12) |")
    assert "(stopped at step 796)" in rows[3]


SMALLEST: dict[str, tuple[str, ...]] = {
    "bytecodes": (),
    "calls": (),
    "counts": (str(FOLDER),),
    "every": ("walks",),
    "fleet": ("--running", "1", "--cases", "2", "--runs", "1"),
    "formats": (),
    "gateway": (),
    "histories": ("--sessions", "6", "--bytes", "2000", "--big", "0", "--rounds", "1", "--no-ccusage"),
    "inbox": ("--sessions", "1", "--browsers", "1", "--seconds", "0.5", "--old", "1"),
    "loop": (),
    "peers": ("--rounds", "1", "harness", "bare"),
    "prefix": ("anthropic",),
    "providers": ("--rounds", "1"),
    "run": (),
    "server": ("--clients", "1", "--rate", "100", "--seconds", "0.2"),
    "session": (),
    "sessions_list": ("--sessions", "2", "--requests", "1"),
    "tui": ("--sessions", "2", "--runs", "1", "--seconds", "0.1", "--events", "20"),
    "two_way": (),
    "undo": (),
    "vendor_types": (),
    "walks": (),
}
"""Every program that can be started, with its smallest size besides what `measuring.size` makes small."""
MODULES = ("corpus", "measuring", "scripted")


def test_every_program_is_started_by_these_tests() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*SMALLEST, *MODULES}


@pytest.mark.parametrize("name", SMALLEST)
def test_every_program_works(name: str, tmp_path: Path) -> None:
    if name == "tui":
        pytest.importorskip("textual", reason="the extra `tui` is not installed")
    if name == "fleet" and shutil.which("git") is None:
        pytest.skip("git is not installed")
    environ = {**os.environ, "HARNESS_BENCHMARKS_SMALLEST": "1", "TMPDIR": str(tmp_path)}
    for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        environ[variable] = str(tmp_path / "home")
    command = [sys.executable, str(FOLDER / f"{name}.py"), *SMALLEST[name]]
    done = subprocess.run(
        command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode and " not installed" in done.stderr:
        pytest.skip(done.stderr.strip().split("\n")[0])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()


def test_what_is_measured_of_a_session_comes_to_its_end_in_full_size_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The programs are started with their smallest sizes: a guard against answers that do not end sees only long ones."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # which the program sets, and which is put back
    session, scripted = program(monkeypatch, "session"), program(monkeypatch, "scripted")
    for model in (scripted.Talker(session.MOST_DELTAS, 256), scripted.Caller(session.MOST_STEPS)):
        assert asyncio.run(session.session_s(model)) > 0
    stuck = scripted.Talker(session.MOST_DELTAS, 256)
    stuck._pieces = [stuck._pieces[0]] * session.MOST_DELTAS
    with pytest.raises(SystemExit, match="ended early"):
        asyncio.run(session.session_s(stuck))


def test_all_together_are_all_programs_and_go_on_after_one_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    every = program(monkeypatch, "every")
    assert set(every.names()) == {*SMALLEST} - {"every"}
    ends = {"calls": (1, "broken"), "peers": (1, "agno is not installed")}
    monkeypatch.setattr(every, "_run", lambda name, *_words: ends.get(name, (0, "")))
    monkeypatch.setattr(sys, "argv", ["every.py", "calls", "peers", "walks"])
    assert every.main() == 1
    said = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert [(words[0], words[1]) for words in said] == [
        ("calls", "failed"),
        ("peers", "left"),
        ("walks", "0"),
    ]


def test_a_peer_that_is_not_installed_is_named_and_the_others_are_measured(
    peers: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(peers, "CACHE", tmp_path)
    monkeypatch.setattr(peers, "measure_all", lambda names, _rounds: {name: {} for name in names})
    monkeypatch.setattr(sys, "argv", ["peers.py", "--rounds", "1", "bare", "agno"])
    peers.main()
    said = capsys.readouterr()
    assert said.err.startswith("not installed: agno\n")
    assert "bare" in said.out
    assert "agno" not in said.out


def test_the_least_of_several_rounds_counts_without_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = program(monkeypatch, "measuring")
    costs = {"a": iter([0.1, 3.0, 2.0]), "b": iter([0.1, 5.0, 6.0])}
    measures = {name: costs[name].__next__ for name in costs}
    assert measuring.least_in_turn(2, measures) == {"a": 2.0, "b": 5.0}


def test_the_counts_know_who_imports_whom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counts = program(monkeypatch, "counts")
    root = tmp_path / "house"
    (root / "room").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "room" / "__init__.py").write_text("")
    (root / "room" / "one.py").write_text("class Text: ...\nclass _Own: ...\n")
    (root / "room" / "two.py").write_text(
        "from house.room.one import Text\nimport house.shared\nclass Text: ...\n"
    )
    (root / "shared.py").write_text("from house.room import two\nclass _Own: ...\n")
    modules = counts.read_modules(root)
    assert counts.single_importers(modules) == {
        "house.room.one": "house.room.two",
        "house.room.two": "house.shared",
        "house.shared": "house.room.two",
    }
    assert counts.repeated_classes(modules) == {"Text": ["house.room.one", "house.room.two"]}
    reasons = {
        name: counts.reason_of(name, importer, modules)
        for name, importer in counts.single_importers(modules).items()
    }
    assert reasons == {
        "house.room.one": counts.NO_REASON,
        "house.room.two": "other folder",
        "house.shared": "other folder",
    }


def test_the_counts_see_cycles_exceptions_aliases_and_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counts = program(monkeypatch, "counts")
    root = tmp_path / "src" / "house"
    for room in ("kitchen", "cellar", "roof"):
        (root / room).mkdir(parents=True)
        (root / room / "__init__.py").write_text("")
    (root / "__init__.py").write_text("from house.roof import tiles\n")
    (root / "kitchen" / "stove.py").write_text(
        "def cook(asked):\n    from house.cellar import shelf\n\n    for one in shelf.STORE:\n        asked.kept = one\n"
    )
    (root / "cellar" / "shelf.py").write_text(
        "from typing import TYPE_CHECKING, TypeAlias\nif TYPE_CHECKING:\n    import house.kitchen.stove\nJar: TypeAlias = str\n"
    )
    (root / "roof" / "tiles.py").write_text("import house\nclass Jar: ...\n")
    (tmp_path / "tests" / "roof").mkdir(parents=True)
    (tmp_path / "tests" / "roof" / "test_tiles.py").write_text("")
    (tmp_path / "pyproject.toml").write_text(
        '[[tool.importlinter.contracts]]\nignore_imports = ["a -> b", "c -> d"]\n'
    )
    modules = counts.read_modules(root)
    assert counts.cycles(modules, counts.room_of) == [["house.cellar", "house.kitchen"]]
    assert counts.import_exceptions(root) == 2
    assert counts.repeated_names(modules) == {"Jar": ["house.cellar.shelf", "house.roof.tiles"]}
    assert counts.participles(modules) == {"asked": 1, "one": 1, "kept": 1}
    assert counts.untested_folders(modules, root) == ["house.cellar", "house.kitchen"]
    figures = counts.structure(modules, root)
    assert (figures["rooms"], figures["lazy imports"]) == (3, 1)


def test_every_benchmark_has_its_row_in_the_list_of_them() -> None:
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in FOLDER.glob("*.py") if f"`{path.name}`" not in listed] == []
