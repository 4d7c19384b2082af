"""The comparison with other frameworks can still be run: ours really, the others as far as their files say."""

from __future__ import annotations

import ast
import asyncio
import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = util.spec_from_file_location("peers", FOLDER / "peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "peers", module)
    spec.loader.exec_module(module)
    return module


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
