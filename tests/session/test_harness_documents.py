"""docs/harness.md and the pages beside it: every program in it runs as it stands, every fragment works, and every parameter is named."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.log.stores.memory import MemoryStore
from harness.session.config import BackingAgent, CommandAgent, Mode, Subagent
from harness.session.harness import Harness
from harness_kit import Model, Record, call, opened
from running_kit import in_loop, started

PAGES = (
    "harness.md",
    "harness-messages.md",
    "harness-agents.md",
    "harness-events.md",
    "harness-questions.md",
    "harness-threads.md",
    "harness-tests.md",
    "harness-compared.md",
)
PAGE = "".join((Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8") for name in PAGES)
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "asyncio.run(" in block or ".sync() as" in block]
FRAGMENTS = [block for block in BLOCKS if block not in PROGRAMS]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_every_program_runs_as_it_is(number: int, tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[number]],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@in_loop
async def test_every_fragment_works_where_it_is() -> None:
    """One after the other, in a session where a call waits for leave, and then a question for its answer."""

    async def deploy() -> str:
        """Deploy."""
        return "deployed"

    model = Model(call("deploy"), call("ask_user", id="c2", question="Which?"))
    async with opened(model, tools=[deploy], storage=MemoryStore()) as (one, record):
        started(one.send_message(content="go"))
        await record.until_emitted("tool_approval_required")
        event = next(event for event in record.events if event.type == "tool_approval_required")
        names: dict[str, Any] = {name: getattr(harness, name) for name in harness.__all__}
        names |= {"harness": one, "session": one.session, "event": event}
        for fragment in FRAGMENTS:
            await _execute(fragment, names)
            names |= {"harness": one, "session": one.session}
            await _settled(one, record)
        assert one.session.permissions.resolve("bash") == "deny"
        assert not one.session.suspensions.all()
        assert model.results()[-2:] == ["deployed", "User answered: yes"]


async def _execute(fragment: str, names: dict[str, Any]) -> None:
    code = compile(fragment, "docs/harness.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, names)
    if inspect.isawaitable(made):
        await made


async def _settled(one: Harness, record: Record) -> None:
    async with asyncio.timeout(60):
        while one.session.run.is_running() and not one.session.approval.is_armed():
            await record.until(lambda: True)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", [*inspect.signature(Harness.__init__).parameters][1:])
def test_every_argument_of_a_harness_is_explained(name: str) -> None:
    assert re.search(rf"^\|[^|]*`{name}`[^|]*\|", PAGE, re.MULTILINE), name


@pytest.mark.parametrize("kind", [Mode, BackingAgent, CommandAgent, Subagent])
def test_every_field_of_what_a_harness_is_made_of_is_named(kind: type[Any]) -> None:
    known = re.findall(r"`?(\w+)(?:`|=)", PAGE)
    assert [name for name in kind.__struct_fields__ if name not in known] == []


def test_no_page_of_the_class_is_left_out() -> None:
    assert {page.name for page in (Path(__file__).parents[2] / "docs").glob("harness*.md")} == set(PAGES)
