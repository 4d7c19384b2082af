"""The services that a harness can be given, each as a small protocol, and those it offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from harness.log.store import Store
from harness.sources.model import Model
from harness.sources.tool import Tool

ModelAuthChecker: TypeAlias = Callable[[str], bool | None]
"""Whether there are credentials for a provider; None: look at the environment."""
UseCounts: TypeAlias = Callable[[], Mapping[str, int]]
UseTracker: TypeAlias = Callable[[str], Awaitable[None] | None]
ResolveModel: TypeAlias = Callable[[str], Model]


class AvailableModel(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    id: str
    provider: str
    model_name: str
    has_api_key: bool
    api_key_env_var: str = ""
    use_count: int = 0


class ModelAuthStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    has_auth: bool
    api_key_env_var: str = ""
    """Named when the credentials are missing."""


class ThreadLock(Protocol):
    """Contract: `acquire` raises when another owner holds the thread. Both may be plain or async."""

    def acquire(self, thread_id: str) -> Awaitable[None] | None: ...

    def release(self, thread_id: str) -> Awaitable[None] | None: ...


class PubSub(Protocol):
    """Contract: what is published under a topic reaches every subscriber of it, in order; `subscribe`
    returns a function that unsubscribes.
    """

    def publish(self, topic: str, message: bytes) -> None: ...

    def subscribe(self, topic: str, listener: Callable[[bytes], object]) -> Callable[[], None]: ...


class Span(Protocol):
    trace_id: str

    def end(self, *, attributes: Mapping[str, Any], error: str = "") -> None: ...


class Observability(Protocol):
    """Contract: one span per run, begun and ended by the session; it never raises."""

    def start_span(
        self, name: str, *, attributes: Mapping[str, Any], context: Mapping[str, Any] | None = None
    ) -> Span: ...


class Browser(Protocol):
    """Contract: `tools` are added to the agents' tools; `close` releases everything."""

    def tools(self) -> Sequence[Tool]: ...

    async def close(self) -> None: ...


class Gateway(Protocol):
    """A provider of models. Contract: `resolve` returns None for a model that is not its own."""

    id: str

    def should_enable(self) -> bool: ...

    def models(self) -> Sequence[AvailableModel]: ...

    def resolve(self, model_id: str) -> Model | None: ...


@runtime_checkable
class Workspace(Protocol):
    """Where agents work. Contract: `init` may raise; the harness then continues without it."""

    id: str
    name: str
    cwd: str

    async def init(self) -> None: ...

    def tools(self) -> Sequence[Tool]: ...

    async def destroy(self) -> None: ...


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What a harness works with, once it is initialised."""

    store: Store
    resolve_model: ResolveModel
    gateways: tuple[Gateway, ...] = ()
    pubsub: PubSub | None = None
    observability: Observability | None = None
