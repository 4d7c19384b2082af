"""What the tests of the server share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="pip install harness-agents[server] to test the server")
pytest.importorskip("uvicorn", reason="pip install harness-agents[server] to test the server")

from serving_world import ServingWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ServingWorld]:
    with ServingWorld(tmp_path).serving_now() as serving:
        yield serving
