"""Ways out of the sandbox: each works without it, and none with it, whatever tries it.

Every escape runs four times as each user: free, to see that it would do harm here, and then confined by own
namespaces, by bubblewrap and by Landlock, each where it can be built. What harm is: anything changed outside of the workspace, in what is protected
inside it, or heard by anybody outside.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.errors import SpawnFailed, UsageError
from harness.process.child import Child
from harness.process.invocation import Invocation
from harness.sandbox import ladder
from harness.sandbox.ladder import best_wall, find_sandbox
from harness.sandbox.rungs import bubblewrap
from lacking import lacking
from other_user import NOBODY, interpreter
from sandbox_kit import (
    BEYOND_LANDLOCK,
    ESCAPES,
    MAY_BE_FORBIDDEN_HERE,
    ONLY_ROOT,
    World,
    as_user,
    is_usable,
    tree_of,
)

USERS = [os.geteuid(), *([NOBODY] if os.geteuid() == 0 else [])]
MOUNTING = ("namespaces", "bubblewrap")
ENGINES = (*MOUNTING, "landlock")


@pytest.fixture(scope="module")
def attempt() -> Callable[[str, int], tuple[set[str], dict[str, str]]]:
    """What worked, and what was said, of all escapes; each combination is tried once."""
    tried: dict[tuple[str, int], tuple[set[str], dict[str, str]]] = {}

    def attempt(engine: str, uid: int) -> tuple[set[str], dict[str, str]]:
        if not interpreter(uid):
            pytest.skip(lacking("Python for nobody"))
        if not is_usable(engine):
            pytest.skip(lacking(engine))
        if (engine, uid) not in tried:
            world = World(uid)
            try:
                outputs = world.run(engine)
                tried[engine, uid] = world.harmed(outputs), outputs
            finally:
                world.close()
        return tried[engine, uid]

    return attempt


Attempt = Callable[[str, int], tuple[set[str], dict[str, str]]]


@pytest.mark.parametrize("uid", USERS)
def test_every_escape_works_where_nothing_is_confined(attempt: Attempt, uid: int) -> None:
    worked, outputs = attempt("free", uid)
    expected = set(ESCAPES | BEYOND_LANDLOCK | (ONLY_ROOT if uid == 0 else {}))
    missing = expected - worked - MAY_BE_FORBIDDEN_HERE
    assert not missing, {name: outputs[name] for name in missing}


@pytest.mark.parametrize("name", [*ESCAPES, *ONLY_ROOT])
@pytest.mark.parametrize("uid", USERS)
@pytest.mark.parametrize("engine", ENGINES)
def test_no_escape_works_in_the_sandbox(attempt: Attempt, engine: str, uid: int, name: str) -> None:
    if name in ONLY_ROOT and uid != 0:
        pytest.skip(lacking("root"))
    worked, outputs = attempt(engine, uid)
    assert name not in worked, outputs[name]


@pytest.mark.parametrize("uid", USERS)
@pytest.mark.parametrize("engine", MOUNTING)
def test_the_mode_of_a_file_outside_is_safe_where_it_is_mounted_apart(
    attempt: Attempt, engine: str, uid: int
) -> None:
    worked, outputs = attempt(engine, uid)
    assert "mode" not in worked, outputs["mode"]


@pytest.fixture
def places() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="harness-sandbox-"))
    (folder / "work" / "sub").mkdir(parents=True)
    yield folder / "work"
    shutil.rmtree(folder)


@pytest.mark.parametrize("engine", ENGINES)
def test_ordinary_work_continues_in_the_sandbox(engine: str, places: Path) -> None:
    if not is_usable(engine):
        pytest.skip(lacking(engine))
    top = "sub" if engine == "landlock" else "."
    commands = {
        "files": f"(cd {top}; echo a > new && mkdir d && mv new d/ && rm -r d && echo done > x && cat x && rm x)",
        "temporary": "python3 -c 'import tempfile; tempfile.TemporaryFile().write(bytes(9)); print(1)' || mktemp",
        "devices": "head -c 3 /dev/urandom > /dev/null && echo ok > /dev/null",
        "pipes": "seq 1000 | sort -rn | head -n 1",
        "exit": "exit 7",
        "stdout": "echo through > /dev/stdout",
    }
    asked = {"engine": engine, "root": str(places), "env": {"PATH": os.environ["PATH"]}, "commands": commands}
    script = str(Path(__file__).with_name("confined_commands.py"))
    outputs = json.loads(as_user(os.geteuid(), [script], json.dumps(asked)))
    assert outputs["files"] == "stdout:\ndone\nexit code: 0"
    assert outputs["temporary"].endswith("exit code: 0")
    assert outputs["devices"] == "exit code: 0"
    assert outputs["pipes"] == "stdout:\n1000\nexit code: 0"
    assert outputs["exit"] == "exit code: 7"
    assert outputs["stdout"] == "stdout:\nthrough\nexit code: 0"


@pytest.mark.parametrize("engine", ENGINES)
def test_version_control_cannot_be_moved_away(engine: str, places: Path) -> None:
    if not is_usable(engine):
        pytest.skip(lacking(engine))
    (places / ".git" / "hooks").mkdir(parents=True)
    command = (
        "mv .git moved; rm -rf .git; mkdir -p .git/hooks; echo x > .git/hooks/post-commit; ln -s / sub/.git"
    )
    asked = {
        "engine": engine,
        "root": str(places),
        "env": {"PATH": os.environ["PATH"]},
        "commands": {"": command},
    }
    as_user(os.geteuid(), [str(Path(__file__).with_name("confined_commands.py"))], json.dumps(asked))
    assert tree_of(places / ".git") == [("hooks", b"", 0o755)]
    assert not (places / "moved").exists()


# It fails closed


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The rungs that do not work here, for what is said then; the set can be changed."""
    names = {"namespaces", "bubblewrap", "landlock"}
    tried = ladder.why_not
    monkeypatch.setattr(
        ladder, "why_not", lambda rung: "not permitted" if rung.name in names else tried(rung)
    )
    ladder.forget()
    yield names
    ladder.forget()


def test_without_any_sandbox_the_request_is_refused(forbidden: set[str], tmp_path: Path) -> None:
    from harness.native.tools.registry import default_tools

    with pytest.raises(UsageError, match=r"own namespaces are refused \(not permitted\).* no Landlock"):
        find_sandbox({"PATH": ""})
    with pytest.raises(UsageError):
        default_tools(str(tmp_path), sandbox=True)
    assert best_wall() is None


def test_the_ladder_is_climbed_down_by_what_works(forbidden: set[str]) -> None:
    for name in ("landlock", "namespaces"):
        forbidden.discard(name)
        ladder.forget()
        if is_usable(name):
            rung = best_wall({"PATH": ""})
            assert rung is not None
            assert rung.name == name


def test_what_cannot_hide_is_refused_where_something_has_to_be_hidden(forbidden: set[str]) -> None:
    if not is_usable("landlock"):
        pytest.skip(lacking("landlock"))
    forbidden.discard("landlock")
    with pytest.raises(UsageError, match="Landlock cannot hide anything"):
        find_sandbox({"PATH": ""}, hides=True)


def test_a_bubblewrap_that_does_not_work_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(ladder, "_USUAL_FOLDERS", ())
    assert ladder.bubblewrap_program({"PATH": str(tmp_path)}) == str(broken)
    assert ladder.why_not(bubblewrap(str(broken))) == "No permissions to create new namespace"


def policy_of(**parts: object) -> str:
    nothing: dict[str, object] = {
        "writable": [],
        "sockets": [],
        "tcp": None,
        "locks": "",
        "stand_ins": [],
        "view": None,
    }
    return json.dumps(nothing | parts)


@pytest.mark.parametrize(
    "policy",
    [
        "{",
        "{}",
        policy_of(sockets="x"),
        policy_of(writable=3),
        policy_of(view={}),
        policy_of(view={"network": "none"}),
    ],
)
def test_what_cannot_be_confined_is_not_started(policy: str, tmp_path: Path) -> None:
    with pytest.raises(SpawnFailed, match="cannot confine"):
        Child(Invocation(("/bin/sh", "-c", "touch started"), {}, str(tmp_path), confinement=policy))
    assert os.listdir(tmp_path) == []


def test_an_agent_that_cannot_be_confined_is_refused(tmp_path: Path) -> None:
    from harness.contracts.request import Request
    from harness.runs.launch import prepare

    with pytest.raises(UsageError, match="cannot be confined with --sandbox"):
        prepare(Request(agent="remote", prompt="x", cwd=str(tmp_path), sandbox=True))


def test_a_run_says_when_the_weaker_sandbox_is_used(tmp_path: Path, forbidden: set[str]) -> None:
    from harness.contracts.request import Request
    from harness.runs.launch import prepare

    if not is_usable("landlock"):
        pytest.skip(lacking("landlock"))
    forbidden.discard("landlock")
    launch = prepare(Request(agent="native", prompt="x", cwd=str(tmp_path), sandbox=True))
    assert "--sandbox uses Landlock here" in launch.warnings[-1]


def test_the_whole_system_is_no_workspace_to_be_confined_to() -> None:
    from harness.contracts.request import Request
    from harness.runs.launch import prepare

    with pytest.raises(UsageError, match="whole system"):
        prepare(Request(agent="native", prompt="x", cwd="/", sandbox=True))


def test_a_confined_run_fetches_nothing_and_changes_no_settings(tmp_path: Path) -> None:
    from harness.native.tools.registry import default_tools
    from tool_kit import Bench

    if best_wall() is None:
        pytest.skip(lacking("wall"))
    bench = Bench(tmp_path)
    tools = {tool.spec.name: tool for tool in default_tools(str(bench.root), sandbox=True)}
    assert "fetch" not in tools
    for path in (".mcp.json", ".claude/settings.json", "harness.toml", ".git/config"):
        assert "protected" in bench.refused(tools["write"], filePath=path, content="x")
