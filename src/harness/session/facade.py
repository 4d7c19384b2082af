"""The methods of a harness that concern its own session: the same names, without saying which session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from harness.events import Signal
from harness.rendering.session.events import HarnessMessage, HarnessThread
from harness.rendering.session.messages import Role
from harness.session.config import BackingAgent, CommandAgent, HeartbeatHandler, RequestContext
from harness.session.notifications import Notification, NotificationInput, Policy
from harness.session.outcome import RunOutcome
from harness.session.services import AvailableModel, ModelAuthStatus, Workspace
from harness.session.session_host import request_context as context_of
from harness.session.signal_delivery import SentSignal
from harness.session.signals import Branch, File
from harness.sources.request import Limits

if TYPE_CHECKING:
    from harness.session.approvals import SessionDisplay
    from harness.session.catalogue import ModelCatalogue
    from harness.session.goals import Goals
    from harness.session.heartbeats import Heartbeats
    from harness.session.permissions import SessionPermissions
    from harness.session.session import Session
    from harness.session.state import SessionState
    from harness.session.workspaces import Workspaces


class MemoryThreads:
    """`harness.memory`: the work on threads under one name."""

    def __init__(self, session: Session) -> None:
        self._threads = session.thread

    async def create_thread(self, *, title: str = "", id: str = "") -> HarnessThread:
        return await self._threads.create(title=title, id=id)

    async def switch_thread(self, *, thread_id: str) -> None:
        await self._threads.switch(thread_id=thread_id)

    def list_threads(
        self, *, all_resources: bool = False, include_forked_subagents: bool = False
    ) -> list[HarnessThread]:
        return self._threads.list(
            all_resources=all_resources, include_forked_subagents=include_forked_subagents
        )

    async def rename_thread(self, *, title: str) -> None:
        await self._threads.rename(title=title)

    async def delete_thread(self, *, thread_id: str) -> None:
        await self._threads.delete(thread_id=thread_id)


class Facade:
    session: Session
    heartbeats: Heartbeats
    workspaces: Workspaces
    catalogue: ModelCatalogue

    @property
    def memory(self) -> MemoryThreads:
        return MemoryThreads(self.session)

    # Threads

    async def select_or_create_thread(self) -> HarnessThread:
        return await self.session.thread.select_or_create()

    async def create_thread(self, *, title: str = "", id: str = "") -> HarnessThread:
        return await self.session.thread.create(title=title, id=id)

    async def switch_thread(self, *, thread_id: str) -> None:
        await self.session.thread.switch(thread_id=thread_id)

    async def clone_thread(
        self, *, source_thread_id: str = "", title: str = "", resource_id: str = ""
    ) -> HarnessThread:
        return await self.session.thread.clone(
            source_thread_id=source_thread_id, title=title, resource_id=resource_id
        )

    async def rename_thread(self, *, title: str) -> None:
        await self.session.thread.rename(title=title)

    async def detach_from_current_thread(self) -> None:
        """Stop what goes on in it; it stays in hand until another one is."""
        await self.session.runs.stop()

    async def set_resource_id(self, *, resource_id: str) -> None:
        await self.session.binding.let_go()
        self.session.identity.set_resource_id(resource_id=resource_id)

    def get_session(self) -> dict[str, Any]:
        session = self.session
        return {
            "currentThreadId": session.thread.get_id(),
            "currentModeId": session.mode.get(),
            "threads": session.thread.list(),
        }

    # Talking

    async def send_message(
        self,
        *,
        content: str,
        files: Iterable[File | Mapping[str, Any]] = (),
        request_context: RequestContext | None = None,
        limits: Limits | None = None,
    ) -> RunOutcome:
        return await self.session.send_message(
            content=content, files=files, request_context=request_context, limits=limits
        )

    async def steer(self, *, content: str, request_context: RequestContext | None = None) -> None:
        await self.session.steer(content=content, request_context=request_context)

    async def follow_up(self, *, content: str, request_context: RequestContext | None = None) -> None:
        await self.session.follow_up(content=content, request_context=request_context)

    def abort(self, *, queue: Literal["keep", "clear"] = "keep") -> None:
        self.session.abort(queue=queue)

    async def respond_to_tool_suspension(
        self, *, resume_data: Any, tool_call_id: str = "", request_context: RequestContext | None = None
    ) -> bool:
        return await self.session.respond_to_tool_suspension(
            resume_data=resume_data, tool_call_id=tool_call_id, request_context=request_context
        )

    async def send_signal(
        self,
        signal: str | Mapping[str, Any] | Signal,
        *,
        if_active: Branch | Mapping[str, Any] | None = None,
        if_idle: Branch | Mapping[str, Any] | None = None,
        request_context: RequestContext | None = None,
    ) -> SentSignal:
        return await self.session.send_signal(
            signal, if_active=if_active, if_idle=if_idle, request_context=request_context
        )

    async def send_notification_signal(
        self, notification: NotificationInput | Mapping[str, Any], *, policy: Policy | None = None
    ) -> Notification:
        return await self.session.send_notification_signal(notification, policy=policy)

    async def save_system_reminder_message(
        self,
        *,
        message: str,
        reminder_type: str,
        role: Role = "user",
        metadata: Mapping[str, Any] | None = None,
    ) -> HarnessMessage | None:
        return await self.session.save_system_reminder_message(
            message=message, reminder_type=reminder_type, role=role, metadata=metadata
        )

    def respond_to_tool_approval(
        self,
        *,
        decision: Literal["approve", "decline", "always_allow", "always_allow_category"],
        tool_call_id: str = "",
        reason: str = "",
        option: str = "",
        request_context: RequestContext | None = None,
    ) -> bool:
        return self.session.respond_to_tool_approval(
            decision=decision,
            tool_call_id=tool_call_id,
            reason=reason,
            option=option,
            request_context=request_context,
        )

    async def wait_until_idle(self) -> None:
        await self.session.wait_until_idle()

    # What the own session knows

    @property
    def state(self) -> SessionState:
        return self.session.state

    @property
    def permissions(self) -> SessionPermissions:
        return self.session.permissions

    @property
    def goals(self) -> Goals:
        return self.session.goals

    @property
    def display_state(self) -> SessionDisplay:
        return self.session.display_state

    # Agents, models, workspace, memory

    def get_current_agent(self) -> BackingAgent | CommandAgent:
        """That of the current mode with everything that it works by: the instructions and tools of all."""
        return self.session.backing.configured()

    def get_current_run_id(self) -> str | None:
        return self.session.run.get_run_id()

    async def list_available_models(self) -> list[AvailableModel]:
        return await self.catalogue.list_available()

    def invalidate_available_models_cache(self) -> None:
        self.catalogue.invalidate()

    async def get_current_model_auth_status(self) -> ModelAuthStatus:
        model_id = self.session.model.get()
        return await self.catalogue.auth_status(model_id) if model_id else ModelAuthStatus(has_auth=True)

    async def register_heartbeat(self, handler: HeartbeatHandler) -> None:
        await self.heartbeats.register(handler)

    async def remove_heartbeat(self, *, id: str) -> None:
        await self.heartbeats.remove(id)

    async def stop_heartbeats(self) -> None:
        await self.heartbeats.stop()

    def get_workspace(self) -> Workspace | None:
        return self.session.workspace

    async def resolve_workspace(self, *, request_context: RequestContext | None = None) -> Workspace | None:
        """The workspace of the own session; a factory is asked the first time."""
        return self.session.workspace or await self.session.resolve_workspace(
            context_of(self.session, request_context)
        )

    def has_workspace(self) -> bool:
        return self.workspaces.is_configured

    def is_workspace_ready(self) -> bool:
        return self.workspaces.is_ready

    async def destroy_workspace(self) -> None:
        await self.workspaces.destroy()

    async def load_om_progress(self) -> None:
        await self.session.load_memory_progress()

    async def get_observational_memory_record(self) -> Any:
        return await self.session.extras.remembrance.record()
