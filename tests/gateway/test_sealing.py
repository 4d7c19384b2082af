"""Sealed runs: what is tried from inside, by a real program behind a real wall."""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import small_agent
from harness.contracts.fixture import LabContext
from harness.contracts.request import GatewayOptions, Request
from harness.errors import UsageError
from harness.events import Message, ToolEnd
from harness.gateway.tunnels import Tunnels, is_public
from harness.lab import LabServer, ScriptRun, load_fixture, parse_script
from harness.log.stores.files import FileStore
from harness.runs import run_gateway, sealing
from harness.runs.program_conversation import ProgramConversation
from harness.runs.run import start
from harness.runs.sealing import find_seal
from harness.sandbox.ladder import why_not
from harness.sandbox.rungs import LANDLOCK, NAMESPACES, Rung
from harness.system.contract import system
from python_programs import SYSTEM_PYTHON, python_program

ESCAPES = tuple(Path(__file__).with_name(name) for name in ("escapes.py", "more_escapes.py"))
SERVED_AGENT = Path(__file__).parents[1] / "runs/served_agent.py"
ALLOWED_BY_LANDLOCK = {"mode outside", "times outside", "attributes outside"}
"""It knows nothing of them: they are said in the documents."""


def _require(rung: Rung) -> None:
    if not system.can_confine:
        pytest.skip("only Linux can seal a run")
    if reason := why_not(rung):
        pytest.skip(f"this system cannot build a wall of {rung.name} ({reason})")
    if rung is LANDLOCK:
        from harness.system.confinement import landlock_version

        if landlock_version() < 6:
            pytest.skip("the Landlock of this kernel is older than version 6: it lets signals through")


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "there").write_text("as it was")
    (folder / ".git/hooks").mkdir(parents=True)
    return folder


@pytest.fixture
def shared() -> Iterator[dict[str, Any]]:
    """What processes of one user share beside all paths and sockets, and a way to be signalled."""
    libc = ctypes.CDLL(None, use_errno=True)
    signals: list[int] = []
    before = signal.signal(signal.SIGURG, lambda number, _: signals.append(number))
    segment, queue = libc.shmget(0, 4096, 0o1600), libc.msgget(0, 0o1600)
    name = f"/harness-test-{os.getpid()}"
    named_queue = libc.mq_open(name.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
    main, side = os.openpty()
    yield {
        "signals": signals,
        "segment": segment,
        "queue": queue,
        "named_queue": name,
        "terminal": os.ttyname(side),
    }
    for descriptor in (main, side):
        os.close(descriptor)
    if named_queue >= 0:
        os.close(named_queue)
        libc.mq_unlink(name.encode())
    libc.shmctl(segment, 0, None)
    libc.msgctl(queue, 0, None)
    signal.signal(signal.SIGURG, before)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Ports, sockets and files that a sealed program must not get at."""
    monkeypatch.setenv("PATH", small_agent.install(tmp_path / "bin") + os.pathsep + os.environ["PATH"])
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.bashrc").write_text("# mine\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-PLANTED-0123456789")
    (tmp_path / "work").mkdir()
    unix = f"/tmp/harness-test-{os.getpid()}.socket"
    with (
        LabServer() as lab,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as by_path,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        datagrams.bind(("127.0.0.1", 0))
        by_path.bind(unix)
        by_path.listen()
        abstract.bind(f"\0harness-test-{os.getpid()}")
        abstract.listen()
        monkeypatch.setenv("ANTHROPIC_BASE_URL", lab.url)
        yield {
            "lab": lab,
            "other": other.getsockname()[1],
            "datagrams": datagrams.getsockname()[1],
            "unix": unix,
            "abstract": f"harness-test-{os.getpid()}",
            "work": str(tmp_path / "work"),
            "home": str(tmp_path / "home"),
            "sessions": str(tmp_path / "sessions"),
            "victim": os.getpid(),
        }
    os.unlink(unix)


@pytest.mark.needs_linux_calls("namespaces, Landlock and seccomp")
@pytest.mark.parametrize("rung", [NAMESPACES, LANDLOCK], ids=lambda rung: rung.name)
def test_nothing_gets_out_of_a_sealed_run(
    place: dict[str, Any],
    shared: dict[str, Any],
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    rung: Rung,
) -> None:
    _require(rung)
    monkeypatch.setattr(sealing, "best_wall", lambda: rung)
    lab: LabServer = place.pop("lab")
    work = place["work"]
    for program in ESCAPES:
        shutil.copy(program, work)
    signals: list[int] = shared.pop("signals")
    about = {**place, **shared, "outside": str(outside), "is_landlock": rung is LANDLOCK, "gateway": 0}
    command = (
        'python3 -c \'import json,os,sys; about = json.load(open("about.json")); '
        'about["gateway"] = int(os.environ["ANTHROPIC_BASE_URL"].rpartition(":")[2]); '
        'os.execv(sys.executable, [sys.executable, "-Es", "more_escapes.py", json.dumps(about)])\''
    ).replace("python3", shlex.quote(SYSTEM_PYTHON))
    Path(work, "about.json").write_text(json.dumps(about))
    context = LabContext(url=lab.url, home=place["home"], cwd=work)
    script = parse_script({"turns": [{"call": "run", "command": command}, {"text": "Done."}]})
    lab.script_run = ScriptRun(script, load_fixture("claude"), context)
    store = FileStore(place["sessions"])
    request = Request(
        agent="claude", prompt="Go.", cwd=work, sealed="write", gateway=GatewayOptions(own_home=True)
    )
    run = start(request, store=store)
    outputs = [event.output for event in run if isinstance(event, ToolEnd)]
    assert run.wait().outcome == "completed", run.wait()
    found = next((line for line in str(outputs[0]).split("\n") if line.startswith("ESCAPED ")), "")
    assert found, outputs
    said = json.loads(found.removeprefix("ESCAPED "))
    assert said["tried"] >= 100
    allowed = ALLOWED_BY_LANDLOCK if rung is LANDLOCK else set()
    assert set(said["escaped"]) <= allowed, said
    assert Path(outside, "there").read_text() == "as it was"
    assert Path(place["home"], ".bashrc").read_text() == "# mine\n"
    assert sorted(os.listdir(outside)) == [".git", "there"]
    assert not signals, "a signal came out of the seal"
    assert {entry.outcome for entry in lab.requests} <= {"answered", "side"}, (
        "only what asks the model is passed on"
    )


@pytest.mark.needs_linux_calls("namespaces, Landlock and seccomp")
@pytest.mark.parametrize("rung", [NAMESPACES, LANDLOCK], ids=lambda rung: rung.name)
def test_a_run_is_sealed_however_long_the_path_of_the_temporary_folder_is(
    place: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rung: Rung
) -> None:
    _require(rung)
    monkeypatch.setattr(sealing, "best_wall", lambda: rung)
    far = tmp_path / "a clöne" / ("x" * 120)
    far.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(far))
    lab: LabServer = place["lab"]
    lab.script_run = ScriptRun(parse_script({"turns": [{"text": "Done."}]}))
    request = Request(agent="claude", prompt="Go.", cwd=place["work"], sealed="write")
    run = start(request, store=FileStore(place["sessions"]))
    events = list(run)
    assert run.wait().outcome == "completed", "\n".join(map(repr, events))
    assert not os.listdir(far)


@pytest.mark.needs_linux_calls("namespaces, Landlock and seccomp")
@pytest.mark.parametrize("rung", [NAMESPACES, LANDLOCK], ids=lambda rung: rung.name)
def test_a_sealed_program_that_is_a_server_is_talked_to(
    place: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rung: Rung
) -> None:
    _require(rung)
    monkeypatch.setattr(sealing, "best_wall", lambda: rung)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    code = SERVED_AGENT.read_text().replace("from __future__ import annotations\n", "")
    program = python_program(tmp_path / "bin/opencode", code, python=SYSTEM_PYTHON)
    request = Request(
        agent="opencode",
        binary=str(program),
        model="openai-chat/gpt-4.1",
        prompt="Hello.",
        cwd=place["work"],
        two_way=True,
        sealed="write",
    )
    with closing(ProgramConversation()) as conversation:
        for prompt in ("Hello.", "Again."):
            run = start(
                replace(request, prompt=prompt),
                store=FileStore(place["sessions"]),
                conversation=conversation,
            )
            events = list(run)
            assert run.wait().outcome == "completed", "\n".join(map(repr, events))
            assert f"You said: {prompt}" in [event.text for event in events if isinstance(event, Message)]


def test_a_seal_that_cannot_be_had_is_never_replaced_by_none(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "best_wall", lambda: None)
    monkeypatch.setattr(sealing, "why_not", lambda rung: "it is refused")
    request = Request(agent="claude", prompt="Go.", cwd=place["work"], sealed="write")
    store = FileStore(place["sessions"])
    with pytest.raises(UsageError, match="sealed"):
        start(request, store=store)
    with pytest.raises(UsageError, match="whole system"):
        find_seal("write", "/")
    assert not os.path.exists(place["sessions"]) or list(store.list()) == []


def test_only_named_hosts_can_be_reached_and_only_where_they_are_public() -> None:
    tunnels = Tunnels(["packages.example.org", "localhost", "127.0.0.1"])
    with socket.socket() as client:
        for target in (
            *("example.org:443", "packages.example.org:80", "evil.packages.example.org:443"),
            *("packages.example.org.evil.org:443", "localhost:443", "127.0.0.1:443", ":443", "", "[::1]:443"),
        ):
            assert not tunnels(target, client), target
    assert not is_public("127.0.0.1")
    assert is_public("8.8.8.8")


def test_a_run_leaves_no_folder_behind(place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = run_gateway.tempfile.mkdtemp
    monkeypatch.setattr(
        run_gateway.tempfile, "mkdtemp", lambda **options: made.append(real(**options)) or made[-1]
    )
    lab: LabServer = place["lab"]
    lab.script_run = ScriptRun(parse_script({"turns": [{"text": "Done."}]}))
    request = Request(agent="claude", prompt="Go.", cwd=place["work"], gateway=GatewayOptions(own_home=True))
    run = start(request, store=FileStore(place["sessions"]))
    assert run.wait().outcome == "completed"
    assert made
    assert not any(map(os.path.exists, made))


@pytest.mark.needs_linux_calls("namespaces, Landlock and seccomp")
@pytest.mark.parametrize("rung", [NAMESPACES, LANDLOCK], ids=lambda rung: rung.name)
def test_a_sealed_program_keeps_the_temporary_folder_of_its_own_home(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch, rung: Rung
) -> None:
    """Codex tells its model where it may write: a replay, which is sealed, must not say something else."""
    _require(rung)
    monkeypatch.setattr(sealing, "best_wall", lambda: rung)
    lab: LabServer = place["lab"]
    command = 'echo x > "$TMPDIR/made" && case "$TMPDIR" in "$HOME"/*) echo its own;; esac'
    script = parse_script({"turns": [{"call": "run", "command": command}, {"text": "Done."}]})
    context = LabContext(url=lab.url, home=place["home"], cwd=place["work"])
    lab.script_run = ScriptRun(script, load_fixture("claude"), context)
    request = Request(
        agent="claude", prompt="Go.", cwd=place["work"], sealed="write", gateway=GatewayOptions(own_home=True)
    )
    outputs = [
        event.output
        for event in start(request, store=FileStore(place["sessions"]))
        if isinstance(event, ToolEnd)
    ]
    assert outputs == ["its own\n"]
