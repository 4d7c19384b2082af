"""A fleet on Ray: a node that is killed loses nothing, and what is left moves to another engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


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
