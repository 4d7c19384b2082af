"""The services that a harness can be given, each as a small protocol, and those it offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from harness.contracts.model import Model
from harness.contracts.tool import Tool
from harness.log.store import Store

ModelAuthChecker: TypeAlias = Callable[[str], bool | None]
"""Whether there are credentials for a provider; None: look at the environment."""
UseCounts: TypeAlias = Callable[[], Mapping[str, int]]
UseTracker: TypeAlias = Callable[[str], Awaitable[None] | None]
ResolveModel: TypeAlias = Callable[[str], Model]


class AvailableModel(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A model that can be selected, and whether there is a key for it."""

    id: str
    provider: str
    model_name: str
    has_api_key: bool
    api_key_env_var: str = ""
    use_count: int = 0


class ModelAuthStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Whether there are credentials for the current model."""

    has_auth: bool
    api_key_env_var: str = ""
    """Named when the credentials are missing."""


class ThreadLock(Protocol):
    """Contract: `acquire` raises when another owner holds the thread. Both may be plain or async."""

    def acquire(self, thread_id: str) -> Awaitable[None] | None:
        """Lock a thread; raise if another owner holds it."""
        ...

    def release(self, thread_id: str) -> Awaitable[None] | None:
        """Release a thread that was locked."""
        ...


class PubSub(Protocol):
    """Contract: what is published under a topic reaches every subscriber of it, in order; `subscribe`
    returns a function that unsubscribes.
    """

    def publish(self, topic: str, message: bytes) -> None:
        """Send a message to all subscribers of a topic."""
        ...

    def subscribe(self, topic: str, listener: Callable[[bytes], object]) -> Callable[[], None]:
        """Call `listener` with every message of a topic; returns a function that unsubscribes."""
        ...


class Span(Protocol):
    """One span of a trace: a run."""

    trace_id: str

    def end(self, *, attributes: Mapping[str, Any], error: str = "") -> None:
        """End the span, with what is known then; `error` is empty where nothing went wrong."""
        ...


class Observability(Protocol):
    """Contract: one span per run, started and ended by the session; it never raises."""

    def start_span(
        self, name: str, *, attributes: Mapping[str, Any], context: Mapping[str, Any] | None = None
    ) -> Span:
        """Start the span `name` for a run; `attributes` describe it, `context` is the request context."""
        ...


class Browser(Protocol):
    """Contract: `tools` are added to the agents' tools; `close` releases everything."""

    def tools(self) -> Sequence[Tool]:
        """The tools with which the model uses the browser."""
        ...

    async def close(self) -> None:
        """Close the browser and release everything."""
        ...


class Gateway(Protocol):
    """A provider of models. Contract: `resolve` returns None for a model that is not its own."""

    id: str

    def should_enable(self) -> bool:
        """Whether it can be used here, for example because there is a key."""
        ...

    def models(self) -> Sequence[AvailableModel]:
        """The models that it provides."""
        ...

    def resolve(self, model_id: str) -> Model | None:
        """The model of that id; None if it is not one of its own."""
        ...


@runtime_checkable
class Workspace(Protocol):
    """Where agents work. Contract: `init` may raise; the harness then continues without it."""

    id: str
    name: str
    cwd: str

    async def init(self) -> None:
        """Prepare it; called once, before its tools are used. May raise."""
        ...

    def tools(self) -> Sequence[Tool]:
        """The tools that read and change it."""
        ...

    async def destroy(self) -> None:
        """Release what `init` opened."""
        ...


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What a harness works with, once it is initialised."""

    store: Store
    resolve_model: ResolveModel
    gateways: tuple[Gateway, ...] = ()
    pubsub: PubSub | None = None
    observability: Observability | None = None
