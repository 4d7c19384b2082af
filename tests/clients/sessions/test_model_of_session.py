"""Under which name an agent is told its model when a session is continued."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.clients.sessions.any_session import AnySession, model_of_session
from harness.log.raw import RawGateway, RawStart
from harness.log.store import Metadata
from harness.log.stores.files import FileStore


@pytest.mark.parametrize(
    ("model", "gateway", "expected"),
    [
        ("k2", None, "k2"),
        ("vendor/k2", None, "vendor/k2"),
        ("openai-chat/k2", RawGateway(mode="pass", provider="openai-chat"), ""),
        ("claude-opus-5-5", RawGateway(mode="pass", provider="anthropic"), "claude-opus-5-5"),
    ],
    ids=["its own name", "a name with a slash", "of a provider behind a gateway", "its own behind a gateway"],
)
def test_a_name_of_a_provider_is_not_passed_on(
    tmp_path: Path, model: str, gateway: RawGateway | None, expected: str
) -> None:
    store = FileStore(tmp_path)
    log_id = "01a1f094-4187-7fc3-a961-1625d23b57c9"
    store.create(Metadata(session_id=log_id, agent_name="kimi")).close()
    start = RawStart(at_ms=1, agent="kimi", model=model, gateway=gateway)
    Path(store.path(log_id, ".raw")).write_bytes(msgspec.json.encode(start) + b"\n")
    assert model_of_session(AnySession("kimi", "", "", "", store, log_id)) == expected
