"""Which agents can be run offline: those that have a `lab`."""

from __future__ import annotations

from harness.agents import registry
from harness.contracts.fixture import AgentFixture
from harness.errors import UsageError


def fixture_names() -> list[str]:
    """Without importing any."""
    return list(registry.names_with("lab"))


def load_fixture(agent: str) -> AgentFixture:
    """Raises UsageError."""
    fixture: AgentFixture | None = registry.load_part(agent, "lab")
    if fixture is None:
        raise UsageError(
            f"there is no fixture for {agent!r}", hint=f"expected one of: {', '.join(fixture_names())}"
        )
    return fixture
