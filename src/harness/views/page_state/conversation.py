"""What concerns the conversation as a whole: its name, mode, model, tasks, queue, and remarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.events import (
    Briefed,
    Compacted,
    Event,
    FollowUpsChanged,
    Info,
    Message,
    ModeChanged,
    ModelChanged,
    Signal,
    SteeringQueued,
    TasksChanged,
    ThreadCreated,
    ThreadRenamed,
    Unknown,
    Warning,
)
from harness.views.formatting.steering import briefing_words
from harness.views.page_state import shapes
from harness.views.page_state.speaker import Speaker
from harness.views.page_state.speech import Speech
from harness.views.page_state.tree import Tree

_LONGEST_UNKNOWN = 2_000


class Conversation:
    """`queued` is kept by the fold, whose snapshot it is part of."""

    def __init__(self, tree: Tree, speech: Speech, queued: dict[str, str]) -> None:
        self._tree = tree
        self._speech = speech
        self._queued = queued
        self.handlers: dict[type[Event], Callable[[Speaker, Any], None]] = {
            ThreadCreated: self._created,
            ThreadRenamed: self._renamed,
            ModeChanged: self._mode,
            ModelChanged: self._model,
            TasksChanged: self._tasks,
            FollowUpsChanged: self._follow_ups,
            SteeringQueued: self._steering,
            Briefed: self._briefed,
            Signal: self._signal,
            Compacted: self._compacted,
            Warning: self._warning,
            Info: self._info,
            Unknown: self._unknown,
        }

    def was_queued(self, speaker: Speaker, event: Message) -> bool:
        """Whether a person's message is one that was waiting; its turn has come then."""
        follow_up_id = event.id if event.id in self._queued else ""
        if not follow_up_id:
            waiting = (key for key, at in self._queued.items() if self._text_at(at) == event.text)
            follow_up_id = next(waiting, "")
        if not follow_up_id or speaker.parent_call:
            return False
        place = ("messages", self._queued.pop(follow_up_id))
        steering = self._tree.at(("steering",))
        if any(one["id"] == follow_up_id for one in steering):
            self._tree.set(("steering",), [one for one in steering if one["id"] != follow_up_id])
        self._speech.close(speaker, "complete")
        self._tree.change((*place, "runId"), event.run_id)
        self._tree.set((*place, "status"), "complete")
        for file in shapes.files_of(event.parts):
            self._tree.push((*place, "parts"), file)
        if not speaker.is_ended and speaker.position >= 0:
            self._speech.current(speaker, event.timestamp_ms)
        return True

    def _text_at(self, position: str) -> str:
        return self._tree.text(("messages", position, "content"))

    def _created(self, _speaker: Speaker, event: ThreadCreated) -> None:
        self._tree.change(("sessionId",), event.id)
        if event.title:
            self._tree.change(("title",), event.title)

    def _renamed(self, _speaker: Speaker, event: ThreadRenamed) -> None:
        self._tree.change(("title",), event.title)

    def _mode(self, _speaker: Speaker, event: ModeChanged) -> None:
        self._tree.change(("mode",), event.mode_id)

    def _model(self, _speaker: Speaker, event: ModelChanged) -> None:
        if not event.mode_id or event.mode_id == self._tree.at(("mode",)):
            self._tree.change(("model",), event.model_id)

    def _tasks(self, speaker: Speaker, event: TasksChanged) -> None:
        if not speaker.parent_call:
            self._tree.set(("tasks",), [shapes.task(task) for task in event.tasks])

    def _follow_ups(self, _speaker: Speaker, event: FollowUpsChanged) -> None:
        queue = event.queue(self._tree.at(("followUps",)))
        waiting = [shapes.follow_up(pending, number) for number, pending in enumerate(queue)]
        self._tree.set(("followUps",), waiting)
        still = {one["id"] for one in (*waiting, *self._tree.at(("steering",)))}
        for follow_up_id in [key for key in self._queued if key not in still]:
            if not event.taken_by:
                self._tree.set(("messages", self._queued.pop(follow_up_id), "status"), "error")
        for one in waiting:
            if one["id"] not in self._queued:
                queued = _waiting(one["id"], one["text"], event)
                self._queued[one["id"]] = self._tree.push(("messages",), queued)[-1]

    def _steering(self, speaker: Speaker, event: SteeringQueued) -> None:
        """It stands before what waits for another run."""
        if speaker.parent_call or event.id in self._queued:
            return
        self._tree.push(("steering",), {"id": event.id, "text": event.text})
        follow_ups = {one["id"] for one in self._tree.at(("followUps",))}
        later = [key for key in self._queued if key in follow_ups]
        place = self._speech.add_before(_waiting(event.id, event.text, event), later)
        self._queued[event.id] = place[-1]

    def _briefed(self, speaker: Speaker, event: Briefed) -> None:
        self._speech.notice(speaker, "info", briefing_words(event), "briefing", event.timestamp_ms)

    def _signal(self, speaker: Speaker, event: Signal) -> None:
        text = shapes.text_of(event.contents)
        if event.category == "user":
            self._speech.said_by_user(
                speaker, text, event.contents, message_id=event.id, at_ms=event.timestamp_ms
            )
        elif text and event.category != "state":  # the state itself is shown elsewhere, as it is
            self._speech.notice(speaker, "info", text, event.tag_name, event.timestamp_ms)

    def _compacted(self, speaker: Speaker, event: Compacted) -> None:
        sizes = [str(size) for size in (event.before_tokens, event.after_tokens) if size is not None]
        told = f" ({' → '.join(sizes)} tokens)" if sizes else ""
        self._speech.notice(
            speaker, "info", f"the context was shortened{told}", "compacted", event.timestamp_ms
        )

    def _warning(self, speaker: Speaker, event: Warning) -> None:
        self._speech.notice(speaker, "warning", event.message, event.code, event.timestamp_ms)

    def _info(self, speaker: Speaker, event: Info) -> None:
        if event.message:
            self._speech.notice(speaker, "info", event.message, event.code, event.timestamp_ms)

    def _unknown(self, speaker: Speaker, event: Unknown) -> None:
        text = event.raw if isinstance(event.raw, str) else event.reason
        if text:
            self._speech.notice(speaker, "info", text[:_LONGEST_UNKNOWN], "unknown", event.timestamp_ms)


def _waiting(message_id: str, text: str, event: Event) -> shapes.Data:
    """A person's message whose turn has not come."""
    said = shapes.message(message_id, "user", status="pending", created_ms=event.timestamp_ms, run_id="")
    said["content"] = text
    said["parts"] = [{"type": "text", "text": text}]
    return said
