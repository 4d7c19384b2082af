"""What the tests of the server share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="pip install harness-agents[server] to test the server")
pytest.importorskip("uvicorn", reason="pip install harness-agents[server] to test the server")

from live_server import LiveServer


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveServer]:
    with LiveServer(tmp_path).serving_now() as serving:
        yield serving
