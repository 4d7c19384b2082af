"""The current mode and models of a session, and how they are changed."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, Literal

from harness.contracts.model import Model
from harness.errors import UsageError
from harness.events import MemoryModelChanged, ModeChanged, ModelChanged, SubagentModelChanged
from harness.events.memory import Noting
from harness.session.checks import check_text
from harness.session.config import CommandAgent, Mode

if TYPE_CHECKING:
    from harness.session.session_core import SessionCore

_logger = logging.getLogger("harness.session")
_ROLES: dict[str, tuple[str, str]] = {
    "observer": ("observerModelId", "observationThreshold"),
    "reflector": ("reflectorModelId", "reflectionThreshold"),
}


class ModeSelection:
    """`session.mode`: the current mode, and how to change it."""

    def __init__(self, session: SessionCore, mode_id: str) -> None:
        self._session = session
        self._mode_id = mode_id
        self._left_with: dict[str, str] = {}
        """By mode: the model in use when the mode was last left."""

    def get(self) -> str:
        """The id of the current mode."""
        return self._mode_id

    def resolve(self) -> Mode:
        """The current `Mode`. Raises UsageError when it does not exist."""
        harness = self._session.harness
        return harness.modes.get(self._mode_id) or harness.mode(self._mode_id)

    async def switch(self, *, mode_id: str) -> None:
        """Stop the current run and enter another mode, with the model that was last used in it."""
        self._session.harness.mode(mode_id)
        self._session.runs.abort(pauses_queue=False)
        self.change(mode_id)

    def change(self, mode_id: str) -> None:
        """Enter another mode while no run is active."""
        session = self._session
        mode = session.harness.mode(mode_id)
        previous = self.enter(mode_id)
        session.append(ModeChanged(mode_id=mode_id, previous_mode_id=previous))
        if mode_id != self._mode_id:
            return  # a listener has switched to another mode
        if session.model.get():
            session.thread.save_setting(f"modeModelId_{previous}", session.model.get())
            self._left_with[previous] = session.model.get()
        session.thread.save_setting("currentModeId", mode_id)
        model_id = session.model.resolve_for_mode(mode)
        if not model_id and isinstance(session.agent, CommandAgent):
            session.model.select("")  # an agent program uses its own model
        elif model_id := model_id or ("" if session.model.get() else self._left_with.get(mode_id, "")):
            session.model.select(model_id)
            session.append(ModelChanged(model_id=model_id))

    def enter(self, mode_id: str) -> str:
        """Change the mode without emitting an event; returns the previous mode."""
        previous, self._mode_id = self._mode_id, mode_id
        return previous


class ModelSelection:
    """`session.model`: the current model, and how to change it."""

    def __init__(self, session: SessionCore, model_id: str) -> None:
        self._session = session
        self._model_id = model_id

    def get(self) -> str:
        """The id of the current model; empty when none is selected."""
        return self._model_id

    def has_selection(self) -> bool:
        """Whether a model is selected."""
        return bool(self._model_id)

    def display_name(self) -> str:
        """The model's id without its provider; `unknown` when none is selected."""
        return self._model_id.rpartition("/")[2] or "unknown"

    def select(self, model_id: str) -> None:
        """Change the model without emitting an event."""
        self._model_id = model_id

    async def switch(
        self, *, model_id: str, scope: Literal["thread", "global"] = "thread", mode_id: str = ""
    ) -> None:
        """Use another model.

        Args:
            model_id: `provider/model`.
            scope: `thread` stores it with the thread; `global` does not.
            mode_id: The mode that gets this model; by default the current one.

        Raises:
            UsageError: For an unknown scope or mode, and an id that is not text.

        """
        session = self._session
        check_text("model_id", model_id)
        if scope not in ("thread", "global"):
            raise UsageError(f"unknown scope of a model: {scope!r}", hint="thread or global")
        target = mode_id or session.mode.get()
        session.harness.mode(target)
        if target == session.mode.get():
            self._model_id = model_id
        if scope == "thread":
            self.save_for_mode(target, model_id)
        await self._track(model_id)
        session.append(ModelChanged(model_id=model_id, scope=scope, mode_id=target))

    def save_for_mode(self, mode_id: str, model_id: str) -> None:
        """Store the model of a mode with the thread."""
        self._session.thread.save_setting(f"modeModelId_{mode_id}", model_id)
        if mode_id == self._session.mode.get():
            self._session.thread.save_setting("currentModelId", model_id)

    def resolve_for_mode(self, mode: Mode) -> str:
        """The model that the thread has stored for a mode, else the default of the mode."""
        saved = self._session.thread.setting(f"modeModelId_{mode.id}")
        return str(saved) if saved else mode.default_model_id

    async def _track(self, model_id: str) -> None:
        tracker = self._session.harness.use_tracker
        if tracker is None:
            return
        try:
            answer = tracker(model_id)
            if answer is not None and inspect.isawaitable(answer):
                await answer
        except Exception:
            _logger.warning("the use of %s could not be counted", model_id, exc_info=True)


class MemoryRole:
    """The observer or the reflector of observational memory."""

    def __init__(self, session: SessionCore, role: Literal["observer", "reflector"]) -> None:
        self._session = session
        self._role: Literal["observer", "reflector"] = role
        self._model_key, self._threshold_key = _ROLES[role]
        self._kind: Noting = "observation" if role == "observer" else "reflection"

    def model_id(self) -> str:
        """The id of the model that does this."""
        session = self._session
        default = getattr(session.harness.om_config, f"default_{self._role}_model_id")
        usual = session.hooks.memory.usual_model(self._kind)
        return str(session.state.peek(self._model_key) or default or usual)

    def threshold(self) -> int:
        """From how many tokens on it is done."""
        session = self._session
        default = getattr(session.harness.om_config, f"default_{self._kind}_threshold")
        usual = session.hooks.memory.usual_threshold(self._kind)
        return int(session.state.peek(self._threshold_key) or default or usual)

    def resolved_model(self) -> Model:
        """The model itself. Raises UsageError for one that cannot be used."""
        return self._session.harness.catalogue.resolve(self.model_id())

    async def switch_model(self, *, model_id: str) -> None:
        """Use another model for this, in this thread."""
        await self._session.state.set({self._model_key: model_id})
        self._session.thread.save_setting(self._model_key, model_id)
        self._session.append(MemoryModelChanged(role=self._role, model_id=model_id))


class MemoryRoles:
    """`session.om`: the models of the observational memory, of its `observer` and its `reflector`."""

    def __init__(self, session: SessionCore) -> None:
        self.observer = MemoryRole(session, "observer")
        self.reflector = MemoryRole(session, "reflector")


class SubagentModels:
    """`session.subagents.model`: which models sub-agents use."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session

    def get(self, *, agent_type: str = "") -> str | None:
        """The model for sub-agents of this type, else for all; None where they have their own default."""
        state = self._session.state
        found: Any = state.peek(f"subagentModelId_{agent_type}") if agent_type else None
        return found or state.peek("subagentModelId") or None

    async def set(self, *, model_id: str, agent_type: str = "") -> None:
        """Use another model for sub-agents of this type, or for all without a type."""
        key = f"subagentModelId_{agent_type}" if agent_type else "subagentModelId"
        await self._session.state.set({key: model_id})
        self._session.thread.save_setting(key, model_id)
        self._session.append(SubagentModelChanged(model_id=model_id, agent_type=agent_type))


class SubagentSettings:
    """`session.subagents`: settings of sub-agents; `model` has their models."""

    def __init__(self, session: SessionCore) -> None:
        self.model = SubagentModels(session)


def unknown_mode(mode_id: str, known: list[str]) -> UsageError:
    return UsageError(f"Mode not found: {mode_id}", hint=f"there are: {', '.join(known)}")
