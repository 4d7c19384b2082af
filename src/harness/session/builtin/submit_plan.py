"""`submit_plan`: a plan for the user to approve or reject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta

from harness.contracts.tool import Tool, ToolContext, ToolOutput, ToolPermission
from harness.session.builtin.arguments import Arguments, answer_to, described, read

USUAL_TITLE = "Implementation Plan"
_DESCRIPTION = (
    "Hand in a finished plan, for when everything was looked at and it is clear what to do. The user reads it as "
    "Markdown, and approves it or says what to change. When it is approved, the work on it begins."
)
REPLY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"action": {"enum": ["approved", "rejected"]}, "feedback": {"type": "string"}},
    "required": ["action"],
}


class SubmitPlanArguments(Arguments, frozen=True, kw_only=True):
    plan: Annotated[
        str, Meta(min_length=1, description="the whole plan: what, in which steps, how it is checked")
    ]
    title: Annotated[str, Meta(description="a few words")] = ""


class SubmitPlanTool(Tool):
    def __init__(self) -> None:
        self.spec = described("submit_plan", _DESCRIPTION, SubmitPlanArguments)

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("submit_plan")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = read(SubmitPlanArguments, arguments, "submit_plan")
        payload = {"title": order.title or USUAL_TITLE, "plan": order.plan}
        reply = await answer_to(context, payload, kind="plan", question=payload["title"], schema=REPLY_SCHEMA)
        if reply is UNSET:
            return ToolOutput(
                text=f"[Plan submitted for review]\n\nTitle: {payload['title']}\n\n{payload['plan']}"
            )
        return ToolOutput(text=reply_text(reply))


def is_approved(reply: Any) -> bool:
    """Whether an answer approves the plan; an unclear answer does not."""
    return (reply.get("action") if isinstance(reply, Mapping) else reply) == "approved"


def reply_text(reply: Any) -> str:
    if is_approved(reply):
        return "Plan approved. Carry it out as it was approved."
    feedback = reply.get("feedback") if isinstance(reply, Mapping) else None
    comment = f"\n\nUser feedback: {feedback}" if feedback else ""
    return (
        f"Plan was not approved. The user wants it changed.{comment}\n\n"
        "Revise the plan accordingly, and submit it again with submit_plan."
    )
