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
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import small_fleet
from harness.errors import MissingExtra, UsageError
from harness.fleet.engines import ray_engine
from harness.fleet.engines.engine import open_engine
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


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed")
def test_a_fleet_on_a_cluster_survives_the_death_of_a_node(tmp_path: Path) -> None:
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, here / "ray_cluster.py", tmp_path],
        env=env,
        capture_output=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    found = json.loads(done.stdout.decode().strip().split("\n")[-1])
    assert "no node of the Ray cluster has CPU = 1, unicorn = 1" in found["refused"]
    assert found["reason"] == "stopped"
    assert found["lost"] in ([], ["lost"])
    assert set(found["moved"]) == {"local"}
    assert (found["scored"] + len(found["moved"]), found["all"]) == (3, 3)
    assert found["passed"] == [True, True, True]
    assert found["left"] == []
