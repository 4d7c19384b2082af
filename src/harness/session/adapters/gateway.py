"""Models behind a custom server with a Chat Completions API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from harness.contracts.model import Model
from harness.errors import UsageError
from harness.session.services import AvailableModel


class ChatGateway:
    """Implements `Gateway`. Its models are named `<id>/<model>`."""

    def __init__(
        self,
        *,
        id: str,
        url: str,
        model_names: Sequence[str],
        key_variable: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`key_variable`: the environment variable that holds the key; empty when none is needed."""
        self.id = id
        self._url = url
        self._model_names = tuple(model_names)
        self._key_variable = key_variable
        self._environ = os.environ if environ is None else environ

    def should_enable(self) -> bool:
        return not self._key_variable or bool(self._key)

    def models(self) -> Sequence[AvailableModel]:
        return [
            AvailableModel(
                id=f"{self.id}/{name}",
                provider=self.id,
                model_name=name,
                has_api_key=self.should_enable(),
                api_key_env_var=self._key_variable,
            )
            for name in self._model_names
        ]

    def resolve(self, model_id: str) -> Model | None:
        provider, _, name = model_id.partition("/")
        if provider != self.id:
            return None
        if not name:
            raise UsageError(f"{model_id!r} names no model", hint=f"write {self.id}/MODEL")
        from harness.models.chat import ChatCompletions, Habits
        from harness.models.http import HttpModel, ModelEndpoint, require_httpx

        require_httpx()
        endpoint = ModelEndpoint(provider=self.id, model=name, url=self._url, key=self._key)
        return HttpModel(endpoint, ChatCompletions(endpoint, Habits()))

    @property
    def _key(self) -> str:
        return self._environ.get(self._key_variable, "").strip() if self._key_variable else ""
