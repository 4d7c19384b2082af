"""`notification-inbox`: the model lists its notifications, has them delivered, and archives them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.events import Signal
from harness.session.builtin.arguments import Arguments, described, read
from harness.session.notifications import (
    Notification,
    NotificationInbox,
    NotificationStatus,
    Priority,
    notification_signal,
)

NAME = "notification-inbox"
_DESCRIPTION = (
    "See and settle the notifications of this thread: list those that wait, read them in full after a summary, "
    "mark one as seen, dismiss or archive it, or search the old ones."
)
_SETTLED: dict[str, NotificationStatus] = {"markSeen": "seen", "dismiss": "dismissed", "archive": "archived"}


class InboxArguments(Arguments, frozen=True, kw_only=True):
    action: Literal["list", "read", "markSeen", "dismiss", "archive", "search"]
    id: Annotated[str, Meta(description="of one notification")] = ""
    status: NotificationStatus | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    source: str = ""
    query: str = ""
    limit: Annotated[int, Meta(ge=1)] | UnsetType = UNSET


class NotificationInboxTool(Tool):
    def __init__(self, inbox: NotificationInbox, deliver: Callable[[Signal], Awaitable[object]]) -> None:
        """`deliver`: shows a signal to the model in its next step."""
        self.spec = described(NAME, _DESCRIPTION, InboxArguments)
        self._inbox = inbox
        self._deliver = deliver

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission(NAME)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        order = read(InboxArguments, arguments, NAME)
        if order.action == "list":
            return _output({"notifications": _shown(self._found(order))})
        if order.action == "search":
            if not order.query:
                raise ToolFailure(f"{NAME} search requires query")
            return _output({"notifications": _shown(self._found(order, search=order.query))})
        if order.action == "read":
            records = [self._one(order.id)] if order.id else self._found(order, unread=True)
            return _output(await self._listed(records))
        if not order.id:
            raise ToolFailure(f"{NAME} {order.action} requires id")
        self._one(order.id)
        record = self._inbox.update(order.id, status=_SETTLED[order.action])
        return _output({"notification": _shown([record])[0]})

    def _one(self, id: str) -> Notification:
        record = self._inbox.get(id)
        if record is None:
            thread_id = self._inbox.host.thread_id()
            raise ToolFailure(f"Notification {id} was not found for thread {thread_id}")
        return record

    def _found(self, order: InboxArguments, *, search: str = "", unread: bool = False) -> list[Notification]:
        statuses: Sequence[NotificationStatus] = ("pending", "delivered") if unread else ()
        if not isinstance(order.status, UnsetType):
            statuses = (order.status,)
        return self._inbox.find(
            statuses=statuses,
            priority=None if isinstance(order.priority, UnsetType) else order.priority,
            source=order.source,
            search=search,
            limit=None if isinstance(order.limit, UnsetType) else order.limit,
        )

    async def _listed(self, records: Sequence[Notification]) -> dict[str, Any]:
        """Deliver unread notifications that have not been delivered yet, and mark all unread ones as seen."""
        delivered = seen_count = already = 0
        for record in records:
            if record.status not in ("pending", "delivered"):
                already += 1
                continue
            if record.delivered_signal_id:
                self._inbox.update(record.id, status="seen")
                seen_count += 1
                continue
            signal = notification_signal(replace(record, status="delivered"), id=self._inbox.host.new_id())
            await self._deliver(signal)
            self._inbox.update(record.id, status="seen", delivered_signal_id=signal.id)
            delivered += 1
        noun = "notification" if delivered == 1 else "notifications"
        message = (
            f"{delivered} {noun} will now be delivered."
            if delivered
            else "Nothing unread had to be delivered."
        )
        return {"message": message, "delivered": delivered, "markedSeen": seen_count, "alreadyRead": already}


def _shown(records: Sequence[Notification]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(record) for record in records]


def _output(value: dict[str, Any]) -> ToolOutput:
    return ToolOutput(text=msgspec.json.encode(value).decode(), result=value)
