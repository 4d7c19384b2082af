"""The examples run as they are written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import postgres_server

EXAMPLES = Path(__file__).parent.parent / "examples"
PAGES = [EXAMPLES.parent / "docs" / "harness.md"]


def _run(name: str, *arguments: str, said: str = "", folder: Path = EXAMPLES) -> str:
    done = subprocess.run(
        [sys.executable, str(folder / name), *arguments],
        input=said,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_chat_asks_before_it_changes_anything(tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    shown = _run("chat.py", "--data", str(tmp_path / "data"), said="fix it\ny\ny\na\n\n", folder=folder)
    assert shown.count("? [y]es, [n]o, [a]: Always allow") == 3
    assert "price * count" in (folder / "shop" / "cart.py").read_text()
    assert "The check passes." in shown


def test_what_is_refused_is_not_done(tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    _run("chat.py", "--data", str(tmp_path / "data"), said="fix it\ny\nn\nn\n\n", folder=folder)
    assert "price * count" not in (folder / "shop" / "cart.py").read_text()


def test_a_plan_is_approved_and_then_carried_out() -> None:
    shown = _run("plan_then_build.py")
    assert shown.index("1. Say hello.") < shown.index("mode: plan → build") < shown.index("Hello. Goodbye.")


def test_a_forked_sub_agent_knows_the_conversation() -> None:
    shown = _run("forked_subagent.py")
    assert "sub-agent second-opinion (forked: True)" in shown
    assert "threads: 1 shown, 2 in all" in shown


def test_two_processes_share_a_thread() -> None:
    shown = _run("two_processes.py", postgres_server.url())
    assert "seen from here: ThreadCreated, SessionStart, Message" in shown
    assert "not yet: " in shown
    assert "assistant: Hello from the first process." in shown
    assert "assistant: And from the second." in shown


def test_a_fleet_compares_two_variants(tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
    harness = [sys.executable, "-m", "harness", "fleet"]
    done = subprocess.run(
        [*harness, "run", folder / "fleet/plan.toml", "--trust"], env=env, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.count(b"CaseScored")) == (0, 8)
    report = subprocess.run(
        [*harness, "report", "shop"], env=env, capture_output=True, text=True, check=True
    ).stdout
    assert "careful  4     100%" in report
    assert "hasty    4     50%" in report
    assert "no clear winner" in report


def test_a_review_is_data(tmp_path: Path) -> None:
    script = tmp_path / "model.toml"
    answer = '{\\"findings\\": [{\\"path\\": \\"a.py\\", \\"line\\": 3, \\"problem\\": \\"no test\\"}]}'
    script.write_text(
        f'order = "arrival"\nturns = [[{{ text = "Looks fine." }}], [{{ text = "{answer}" }}]]\n'
    )
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "review_bot.py"), "--model", f"scripted/{script}"],
        input="diff --git a/a.py b/a.py",
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "a.py:3: no test\n", "")


def test_the_examples_and_those_of_documents_are_strictly_typed_without_any(tmp_path: Path) -> None:
    from mypy import api

    programs = [str(path) for path in EXAMPLES.glob("*.py")]
    for page in PAGES:
        blocks = re.findall(
            r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for number, block in enumerate(
            block for block in blocks if "import" in block
        ):  # the others are fragments
            program = tmp_path / f"{page.stem}_{number}.py"
            program.write_text(block)
            programs.append(str(program))
    options = ["--strict", "--no-error-summary"]
    assert api.run([*programs, *options])[0] == ""
    assert not [path for path in programs if re.search(r"\bAny\b", Path(path).read_text(encoding="utf-8"))]
