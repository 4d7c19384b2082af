"""The current mode and models of a session, and how they are changed."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from harness.contracts.model import Model
from harness.events import Event, MemoryModelChanged, ModeChanged, ModelChanged, SubagentModelChanged
from harness.events.memory import Noting
from harness.session.config import Mode
from harness.session.harness_parts import HarnessParts
from harness.session.public_side import public
from harness.session.state import SessionState

_logger = logging.getLogger("harness.session")
_ROLES: dict[str, tuple[str, str]] = {
    "observer": ("observerModelId", "observationThreshold"),
    "reflector": ("reflectorModelId", "reflectionThreshold"),
}


class ThreadSettings(Protocol):
    """Of the open thread; without one nothing is stored."""

    def setting(self, key: str) -> Any: ...

    def save_setting(self, key: str, value: Any) -> None: ...


class UsualMemory(Protocol):
    """What a memory does itself with, unless something else is chosen."""

    def usual_model(self, kind: Noting) -> str: ...

    def usual_threshold(self, kind: Noting) -> int: ...


class Choices(NamedTuple):
    """Where the choices of a session are stored, and who is told of them."""

    harness: HarnessParts
    state: SessionState
    thread: ThreadSettings
    append: Callable[[Event], object]


@public("change", "enter")
class ModeSelection:
    """`session.mode`: the current mode, and how to change it."""

    def __init__(self, mode_id: str, choices: Choices, *, stop: Callable[[], object]) -> None:
        """`stop`: stop the current run."""
        self._mode_id = mode_id
        self._harness, self._append = choices.harness, choices.append
        self._stop = stop
        self.on_change: Callable[[str, Mode], object] = lambda _previous, _mode: None
        """Called after a change, with the id of the mode before."""

    def get(self) -> str:
        """The id of the current mode."""
        return self._mode_id

    def resolve(self) -> Mode:
        """The current `Mode`. Raises UsageError when it does not exist."""
        return self._harness.modes.get(self._mode_id) or self._harness.mode(self._mode_id)

    async def switch(self, *, mode_id: str) -> None:
        """Stop the current run and enter another mode, with the model that was last used in it."""
        self._harness.mode(mode_id)
        self._stop()
        self.change(mode_id)

    def change(self, mode_id: str) -> None:
        """Enter another mode while no run is active."""
        mode = self._harness.mode(mode_id)
        previous = self.enter(mode_id)
        self._append(ModeChanged(mode_id=mode_id, previous_mode_id=previous))
        if mode_id == self._mode_id:  # else a listener has switched to another mode
            self.on_change(previous, mode)

    def enter(self, mode_id: str) -> str:
        """Change the mode without emitting an event; returns the previous mode."""
        previous, self._mode_id = self._mode_id, mode_id
        return previous


@public("resolve_for_mode", "save_for_mode", "select")
class ModelSelection:
    """`session.model`: the current model, and how to change it."""

    def __init__(
        self, model_id: str, mode: ModeSelection, choices: Choices, *, works_alone: Callable[[], bool]
    ) -> None:
        """`works_alone`: whether the agent of the mode is a program, which has a model of its own."""
        self._model_id = model_id
        self._mode = mode
        self._harness, self._thread, self._append = choices.harness, choices.thread, choices.append
        self._works_alone = works_alone
        self._left_with: dict[str, str] = {}
        """By mode: the model in use when the mode was last left."""

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
        target = mode_id or self._mode.get()
        self._harness.mode(target)
        if target == self._mode.get():
            self._model_id = model_id
        if scope == "thread":
            self.save_for_mode(target, model_id)
        await self._track(model_id)
        self._append(ModelChanged(model_id=model_id, scope=scope, mode_id=target))

    def save_for_mode(self, mode_id: str, model_id: str) -> None:
        """Store the model of a mode with the thread."""
        self._thread.save_setting(f"modeModelId_{mode_id}", model_id)
        if mode_id == self._mode.get():
            self._thread.save_setting("currentModelId", model_id)

    def follow(self, previous: str, mode: Mode) -> None:
        """The mode has changed: use the model that was last used in it."""
        if self._model_id:
            self._thread.save_setting(f"modeModelId_{previous}", self._model_id)
            self._left_with[previous] = self._model_id
        self._thread.save_setting("currentModeId", mode.id)
        model_id = self.resolve_for_mode(mode)
        if not model_id and self._works_alone():
            self.select("")
        elif model_id := model_id or ("" if self._model_id else self._left_with.get(mode.id, "")):
            self.select(model_id)
            self._append(ModelChanged(model_id=model_id))

    def resolve_for_mode(self, mode: Mode) -> str:
        """The model that the thread has stored for a mode, else the default of the mode."""
        saved = self._thread.setting(f"modeModelId_{mode.id}")
        return str(saved) if saved else mode.default_model_id

    async def _track(self, model_id: str) -> None:
        tracker = self._harness.use_tracker
        if tracker is None:
            return
        try:
            answer = tracker(model_id)
            if answer is not None and inspect.isawaitable(answer):
                await answer
        except Exception:
            _logger.warning("the use of %s could not be counted", model_id, exc_info=True)


@public()
class MemoryRole:
    """The observer or the reflector of observational memory."""

    def __init__(
        self, role: Literal["observer", "reflector"], choices: Choices, usual: Callable[[], UsualMemory]
    ) -> None:
        self._role: Literal["observer", "reflector"] = role
        self._choices, self._usual = choices, usual
        self._model_key, self._threshold_key = _ROLES[role]
        self._kind: Noting = "observation" if role == "observer" else "reflection"

    def model_id(self) -> str:
        """The id of the model that does this."""
        default = getattr(self._choices.harness.om_config, f"default_{self._role}_model_id")
        usual = self._usual().usual_model(self._kind)
        return str(self._choices.state.peek(self._model_key) or default or usual)

    def threshold(self) -> int:
        """From how many tokens on it is done."""
        default = getattr(self._choices.harness.om_config, f"default_{self._kind}_threshold")
        usual = self._usual().usual_threshold(self._kind)
        return int(self._choices.state.peek(self._threshold_key) or default or usual)

    def resolved_model(self) -> Model:
        """The model itself. Raises UsageError for one that cannot be used."""
        return self._choices.harness.catalogue.resolve(self.model_id())

    async def switch_model(self, *, model_id: str) -> None:
        """Use another model for this, in this thread."""
        await self._choices.state.set({self._model_key: model_id})
        self._choices.thread.save_setting(self._model_key, model_id)
        self._choices.append(MemoryModelChanged(role=self._role, model_id=model_id))


class MemoryRoles:
    """`session.om`: the models of the observational memory, of its `observer` and its `reflector`."""

    def __init__(self, choices: Choices, usual: Callable[[], UsualMemory]) -> None:
        self.observer: MemoryRole = MemoryRole("observer", choices, usual)
        self.reflector: MemoryRole = MemoryRole("reflector", choices, usual)


@public()
class SubagentModels:
    """`session.subagents.model`: which models sub-agents use."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def get(self, *, agent_type: str = "") -> str | None:
        """The model for sub-agents of this type, else for all; None where they have their own default."""
        state = self._choices.state
        model_id: Any = state.peek(f"subagentModelId_{agent_type}") if agent_type else None
        return model_id or state.peek("subagentModelId") or None

    async def set(self, *, model_id: str, agent_type: str = "") -> None:
        """Use another model for sub-agents of this type, or for all without a type."""
        key = f"subagentModelId_{agent_type}" if agent_type else "subagentModelId"
        await self._choices.state.set({key: model_id})
        self._choices.thread.save_setting(key, model_id)
        self._choices.append(SubagentModelChanged(model_id=model_id, agent_type=agent_type))


class SubagentSettings:
    """`session.subagents`: settings of sub-agents; `model` has their models."""

    def __init__(self, choices: Choices) -> None:
        self.model: SubagentModels = SubagentModels(choices)
