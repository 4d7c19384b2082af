"""The catalogue of models: which there are, which have credentials here, and how an id becomes a `Model`."""

from __future__ import annotations

import inspect
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from harness.contracts.model import Model
from harness.errors import UsageError
from harness.session.services import (
    AvailableModel,
    Gateway,
    ModelAuthChecker,
    ModelAuthStatus,
    ResolveModel,
    UseCounts,
)

CustomCatalogue = Callable[[], Iterable[Any] | Awaitable[Iterable[Any]]]

_logger = logging.getLogger("harness.session")
_FRESH_S = 10.0


class ModelCatalogue:
    def __init__(
        self,
        resolve_model: ResolveModel | None = None,
        auth_checker: ModelAuthChecker | None = None,
        use_counts: UseCounts | None = None,
        custom: CustomCatalogue | None = None,
        gateways: Sequence[Gateway] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._resolve_model = resolve_model
        self._auth_checker = auth_checker
        self._use_counts = use_counts
        self._custom = custom
        self._gateways = tuple(gateway for gateway in gateways if gateway.should_enable())
        self._environ = os.environ if environ is None else environ
        self._known: tuple[float, list[AvailableModel]] | None = None

    @property
    def gateways(self) -> tuple[Gateway, ...]:
        return self._gateways

    def resolve(self, model_id: str) -> Model:
        """The model with that id. Raises UsageError for an unknown one, and when its key is missing."""
        if self._resolve_model is not None:
            return _checked(self._resolve_model(model_id), model_id)
        for gateway in self._gateways:
            if (model := gateway.resolve(model_id)) is not None:
                return _checked(model, model_id)
        from harness.models.registry import open_model

        return open_model(model_id, self._environ)

    async def list_available(self) -> list[AvailableModel]:
        """The models that can be chosen, cached for ten seconds."""
        now_s = time.monotonic()
        if self._known is None or now_s - self._known[0] >= _FRESH_S:
            self._known = (now_s, await self._collect())
        return list(self._known[1])

    def invalidate(self) -> None:
        self._known = None

    async def auth_status(self, model_id: str) -> ModelAuthStatus:
        """Whether there are credentials for the model; True where that is unknown."""
        provider = model_id.partition("/")[0]
        answer = self._asked(provider)
        known = await self.list_available()
        model = next((entry for entry in known if entry.id == model_id), None)
        model = model or next((entry for entry in known if entry.provider == provider), None)
        if model is None:
            return _status(True if answer is None else answer, "")
        return _status(model.has_api_key if answer is None else answer, model.api_key_env_var)

    async def _collect(self) -> list[AvailableModel]:
        models_by_id: dict[str, AvailableModel] = {}
        sources: list[Callable[[], Any]] = [
            self._from_registry,
            *(gateway.models for gateway in self._gateways),
        ]
        if self._custom is not None:
            sources.append(self._custom)
        for source in sources:
            for model in await self._from(source):
                models_by_id[model.id] = model
        counts = self._counts()
        return [
            msgspec.structs.replace(
                model,
                use_count=counts.get(model.id, model.use_count),
                has_api_key=model.has_api_key if (asked := self._asked(model.provider)) is None else asked,
            )
            for model in models_by_id.values()
        ]

    async def _from(self, source: Callable[[], Any]) -> list[AvailableModel]:
        try:
            given = source()
            if inspect.isawaitable(given):
                given = await given
            models = [_model(model) for model in given]
        except Exception:
            _logger.warning("a catalogue of models could not be read", exc_info=True)
            return []
        return [model for model in models if model is not None]

    def _from_registry(self) -> list[AvailableModel]:
        from harness.models.registry import PROVIDERS, usable

        ready = {row.provider: row.is_usable for row in usable(self._environ)}
        return [
            AvailableModel(
                id=f"{name}/{provider.usual_model}",
                provider=name,
                model_name=provider.usual_model,
                has_api_key=ready.get(name, False),
                api_key_env_var=next(iter(provider.keys), ""),
            )
            for name, provider in PROVIDERS.items()
            if provider.usual_model
        ]

    def _counts(self) -> Mapping[str, int]:
        if self._use_counts is None:
            return {}
        try:
            return self._use_counts()
        except Exception:
            _logger.warning("the use counts of models could not be read", exc_info=True)
            return {}

    def _asked(self, provider: str) -> bool | None:
        if self._auth_checker is None:
            return None
        try:
            return self._auth_checker(provider)
        except Exception:
            _logger.warning("the check of credentials failed for %s", provider, exc_info=True)
            return None


def _checked(model: Any, model_id: str) -> Model:
    """Raises UsageError for what a function of the application gives instead of a model."""
    if isinstance(getattr(model, "name", None), str) and callable(getattr(model, "answer", None)):
        resolved: Model = model
        return resolved
    raise UsageError(
        f"there is no model for {model_id!r}: {model!r:.60} was given",
        hint="resolve_model gives something with `name` and `answer`, such as open_model(…)",
    )


def _status(has_auth: bool, variable: str) -> ModelAuthStatus:
    return ModelAuthStatus(has_auth=has_auth, api_key_env_var="" if has_auth else variable)


def _model(given: Any) -> AvailableModel | None:
    """An entry of any catalogue; None when it lacks an id, a provider or a name."""
    if isinstance(given, AvailableModel):
        return given if given.id and given.provider and given.model_name else None
    value = given if isinstance(given, Mapping) else vars(given)

    def read(camel: str, snake: str) -> Any:
        return value.get(camel, value.get(snake))

    model_id, provider, name = value.get("id"), value.get("provider"), read("modelName", "model_name")
    if not (model_id and provider and name):
        return None
    return AvailableModel(
        id=model_id,
        provider=provider,
        model_name=name,
        has_api_key=bool(read("hasApiKey", "has_api_key")),
        api_key_env_var=read("apiKeyEnvVar", "api_key_env_var") or "",
        use_count=int(read("useCount", "use_count") or 0),
    )
