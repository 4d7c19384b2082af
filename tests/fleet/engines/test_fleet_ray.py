"""A fleet on Ray: a node that is killed loses nothing, what is left moves to another engine, and nothing waits for a
cluster that does not answer.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

import small_fleet
from harness.errors import MissingExtra, UsageError
from harness.fleet.engines import ray_engine
from harness.fleet.engines.open_engine import open_engine
from harness.fleet.fleet import Fleet


class MuteRay:
    """Ray whose cluster never answers."""

    def __init__(self) -> None:
        self.util = self
        self.asked: list[str] = []
        self.end = threading.Event()

    def is_initialized(self) -> bool:
        return False

    def get_node_ip_address(self) -> str:
        return "127.0.0.1"

    def init(self, address: str, **_: object) -> None:
        self.asked.append(address)
        self.end.wait(30)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    variants = [small_fleet.variant(tmp_path, small_fleet.FAILS)]
    return small_fleet.fleet(tmp_path, small_fleet.plan(tmp_path, variants))


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> Iterator[MuteRay]:
    found = MuteRay()
    monkeypatch.setattr(ray_engine, "import_module", lambda _name: found)
    yield found
    found.end.set()


@pytest.fixture
def listener() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens_is_refused_at_once(
    fleet: Fleet, mute: MuteRay, scheme: str
) -> None:
    with socket.socket() as closed:  # bound, but it does not listen
        closed.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"the Ray cluster at {address}: .*refused") as refused:
            open_engine("ray", fleet, address)
    assert "--ray-address" in refused.value.hint
    assert mute.asked == []


@pytest.mark.parametrize("address", ["host:port", "host:0", ":6379"])
def test_what_is_no_address_is_refused(fleet: Fleet, mute: MuteRay, address: str) -> None:
    with pytest.raises(UsageError, match=f"the Ray cluster at {address}"):
        open_engine("ray", fleet, address)
    assert mute.asked == []


def test_a_cluster_that_does_not_answer_is_given_up(
    fleet: Fleet, mute: MuteRay, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "_CONNECT_S", 0.05)
    with pytest.raises(UsageError, match="did not answer within"):
        open_engine("ray", fleet, listener)
    assert mute.asked == [listener]


def test_what_ray_says_is_the_error(
    fleet: Fleet, mute: MuteRay, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("another version\nof Ray")

    monkeypatch.setattr(mute, "init", refuse)
    with pytest.raises(UsageError, match="another version of Ray"):
        open_engine("ray", fleet, listener)


def test_without_ray_the_error_says_how_to_install_it(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match="which is not installed") as missing:
        open_engine("ray", fleet)
    assert "[ray]" in missing.value.hint


needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed")


@needs_ray
@pytest.mark.slow
@pytest.mark.timeout(150)
def test_a_fleet_moves_to_a_cluster_and_survives_the_death_of_a_node(tmp_path: Path) -> None:
    here = Path(__file__).parents[1]
    done = _run(
        [sys.executable, here / "ray_cluster.py", tmp_path],
        {"PYTHONPATH": os.pathsep.join((str(here), str(here.parent)))},
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    found = json.loads(done.stdout)  # Ray itself has printed nothing there
    assert found["local"] == 1
    assert "no node of the Ray cluster has CPU = 1, unicorn = 1" in found["refused"]
    ((reason, detail, is_retried),) = found["lost"]
    assert (reason, is_retried) == ("lost", True)
    assert "NodeDiedError" in detail
    assert found["node"] in detail
    assert found["engines"] == ["ray", "ray", "ray"]  # the two cases that were left, and one of them again
    assert (found["reason"], found["scored"]) == ("completed", 3)
    assert (found["attempts"], found["passed"]) == ([1, 1, 2], [True, True, True])
    assert (found["processes"], found["workspaces"]) == ([], [])


@needs_ray
@pytest.mark.slow
@pytest.mark.timeout(150)
def test_without_an_address_ray_runs_on_this_machine(tmp_path: Path) -> None:
    variants = [small_fleet.variant(tmp_path, small_fleet.SOLVES)]
    small = small_fleet.fleet(tmp_path, small_fleet.plan(tmp_path, variants))
    argv = [sys.executable, "-m", "harness", "fleet", "resume", small.directory, "--engine", "ray"]
    done = _run(argv, {"XDG_DATA_HOME": str(tmp_path / "data")})
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert (kinds[0], kinds[-1]) == ("FleetPlanned", "FleetEnded")
    assert "CaseScored" in kinds
    assert [one.passed for one in small.records.results().values()] == [True]


def _run(argv: Sequence[str | Path], env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", **env}
    return subprocess.run(argv, env=env, capture_output=True, timeout=140, check=False)
