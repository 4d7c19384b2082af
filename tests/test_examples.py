"""The examples run as they are written."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import node_packages
import postgres_server
from lacking import lacking

EXAMPLES = Path(__file__).parent.parent / "examples"
PAGES = [*sorted((EXAMPLES.parent / "docs").glob("harness*.md")), EXAMPLES.parent / "docs" / "python.md"]


def test_the_list_of_examples_has_all_of_them() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f"]({path.name})" not in listed] == []


def _run(
    name: str, *arguments: str, said: str = "", folder: Path = EXAMPLES, env: Mapping[str, str] | None = None
) -> str:
    done = subprocess.run(
        [sys.executable, str(folder / name), *arguments],
        input=said,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONWARNINGS": "error", **(env or {})},
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


def test_claude_code_plans_and_codex_builds(tmp_path: Path) -> None:
    for name, version in (("claude", "2.1.325"), ("codex", "0.166.0")):
        fake = Path(__file__).parent / "session" / f"fake_{name}.py"
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\nFAKE_VERSION={version} exec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(fake))} "$@"\n'
        )
        program.chmod(0o755)
    (tmp_path / "work").mkdir()
    env = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "FAKE_NOTES": str(tmp_path / "notes.jsonl"),
    }
    arguments = ("Make a plan.", "--folder", str(tmp_path / "work"))
    shown = _run("claude_plans_codex_builds.py", *arguments, said="y\ny\n", env=env)
    assert (
        shown.index("1. do it")
        < shown.index("— Codex —")
        < shown.index("'make'")
        < shown.index("It is built.")
    )
    told = json.loads((tmp_path / "notes.jsonl").read_text().splitlines()[-1])["prompt"]
    assert "1. do it" in told
    assert told.endswith("Carry out the plan.")


def test_a_recursive_model_reads_a_log_of_ten_megabytes() -> None:
    if shutil.which("true") is None or not sys.platform.startswith("linux"):
        pytest.skip("the code of a recursive model is confined on Linux alone")
    shown = _run("rlm_log.py")
    assert "10055890 characters" in shown
    assert shown.endswith("3 requests failed, all of /cart, for: c0 (2), c1 (1).\n")


def test_a_question_on_the_web_outlives_the_process(tmp_path: Path) -> None:
    if find_spec("fastapi") is None:
        pytest.skip(lacking("FastAPI"))
    import httpx

    folder = tempfile.TemporaryDirectory(dir="/tmp")  # the path of a socket is short
    address = f"{folder.name}/socket"
    transport = httpx.HTTPTransport(uds=address)
    with folder, httpx.Client(transport=transport, base_url="http://shop", timeout=30) as http:
        with _served("web_assistant:app", address, tmp_path) as process:
            assert http.post("/ann/messages", json={"text": "My money back!"}).status_code == 202
            [question] = _until(lambda: http.get("/ann/questions").json())
            assert question["args"] == {"order": "A-7", "euros": 20}
            assert http.get("/bob/questions").json() == []
            process.kill()
        with _served("web_assistant:app", address, tmp_path):
            assert http.get("/ann/questions").json() == [question]
            assert http.post("/ann/questions/other", json={"allow": True}).status_code == 404
            answered = http.post(f"/ann/questions/{question['id']}", json={"allow": True})
            assert answered.json() == {"counted": True}
            with http.stream("GET", "/ann/events") as events:
                said = (json.loads(line[6:]).get("text", "") for line in events.iter_lines() if line)
                assert next(text for text in said if text) == "The 20 euros are on their way."
            assert http.get("/ann/questions").json() == []


@contextmanager
def _served(app: str, address: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "uvicorn", app, "--uds", address, "--log-level", "error"]
    env = {**os.environ, "DATA": str(folder / "data")}
    Path(address).unlink(missing_ok=True)
    process = subprocess.Popen(command, cwd=EXAMPLES, env=env)
    try:
        _until(lambda: _answers(address) or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.wait()


def _answers(address: str) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(address) == 0


def _until(look: Callable[[], Any]) -> Any:
    """What it gives, as soon as it gives something."""
    end = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


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
    assert (done.returncode, done.stdout.count(b"CaseScored")) == (0, 8), done.stderr.decode()
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


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The examples, and the programs of the documents. What imports FastAPI only where that is installed."""
    folder = tmp_path_factory.mktemp("programs")
    for path in EXAMPLES.glob("*.py"):
        if find_spec("fastapi") or path.stem != "web_assistant":
            shutil.copy(path, folder)
    for page in PAGES:
        blocks = re.findall(
            r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for number, block in enumerate(
            block for block in blocks if "import" in block
        ):  # the others are fragments
            (folder / f"{page.stem}_{number}.py").write_text(block, encoding="utf-8")
    return sorted(folder.glob("*.py"))


def test_the_examples_and_those_of_documents_are_strictly_typed_without_any(programs: list[Path]) -> None:
    from mypy import api

    assert api.run([*map(str, programs), "--strict", "--no-error-summary"])[0] == ""
    assert not [path for path in programs if re.search(r"\bAny\b", path.read_text(encoding="utf-8"))]


def test_pyright_finds_nothing_in_them_either(programs: list[Path]) -> None:
    checker = node_packages.folder("pyright") / "node_modules" / "pyright" / "index.js"
    settings = programs[0].parent / "pyrightconfig.json"
    settings.write_text(json.dumps({"typeCheckingMode": "strict"}), encoding="utf-8")
    command = ["node", str(checker), "-p", str(settings), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert [f"{Path(one['file']).name}: {one['message']}" for one in found["generalDiagnostics"]] == []
    assert found["summary"]["filesAnalyzed"] == len(programs)


def test_the_examples_import_only_what_is_public() -> None:
    deep = [
        f"{path.name}: {line}"
        for path in EXAMPLES.glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"(from|import) harness\.(?!events\b)", line)
    ]
    assert deep == []
