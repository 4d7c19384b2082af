"""ATIF: a trajectory as one JSON document, with the sub-agents that it embeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from harness.contracts.translator import Record
from harness.events import Event, Message, ReasoningDelta, Result, SessionStart, Unknown, Usage, UsageDelta
from harness.formats.fields import amount_of, besides, count_of, items_of, output_of, record_of, text_of
from harness.protocols.standards.records import StandardTranslator

_OUTCOMES = ("completed", "failed", "timed_out", "stalled", "interrupted", "limit_exceeded")


_ROLES: dict[str, Literal["assistant", "user", "system"]] = {
    "agent": "assistant",
    "user": "user",
    "system": "system",
}


class AtifTranslator(StandardTranslator):
    rules: ClassVar[dict[str, str]] = {"trajectory": "_trajectory"}

    def __init__(self) -> None:
        super().__init__()
        self._embedded: dict[str, Record] = {}
        self._texts: dict[str, str] = {}
        """The last text of each run."""

    def kind(self, record: Record) -> str:
        is_one = text_of(record.get("schema_version")).startswith("ATIF-") and isinstance(
            record.get("steps"), list
        )
        return "trajectory" if is_one else ""

    def _trajectory(self, record: Record) -> Sequence[Event]:
        agent = record_of(record.get("agent"))
        self._embed(record)
        start = SessionStart(
            agent=text_of(agent.get("name")) or "atif",
            version=text_of(agent.get("version")),
            model=text_of(agent.get("model_name")),
            session_id=text_of(record.get("session_id")),
        )
        outcome = text_of(record_of(record.get("extra")).get("outcome")) or "completed"
        outcome = outcome if outcome in _OUTCOMES else "unknown"
        end = Result(success=outcome == "completed", outcome=outcome)  # type: ignore[arg-type] # one of them
        return [start, *self._steps(record, ""), end]

    def _embed(self, record: Record) -> None:
        for trajectory in map(record_of, items_of(record.get("subagent_trajectories"))):
            self._embedded[text_of(trajectory.get("trajectory_id"))] = trajectory
            self._embed(trajectory)

    def _steps(self, record: Record, run_id: str) -> Iterator[Event]:
        for step in map(record_of, items_of(record.get("steps"))):
            source, text = text_of(step.get("source")), output_of(step.get("message"))
            role = _ROLES.get(source)
            if role is None:
                yield Unknown(raw=step, run_id=run_id)
                continue
            if thoughts := text_of(step.get("reasoning_content")):
                yield ReasoningDelta(text=thoughts, run_id=run_id)
            if text:
                yield Message(role=role, text=text, run_id=run_id)
            if source == "agent":
                self._texts[run_id] = text or self._texts.get(run_id, "")
                yield from self._calls_of(step, run_id)
                yield from self._usage(step, run_id)

    def _calls_of(self, step: Record, run_id: str) -> Iterator[Event]:
        names: dict[str, str] = {}
        for call in map(record_of, items_of(step.get("tool_calls"))):
            call_id, name = text_of(call.get("tool_call_id")), text_of(call.get("function_name"))
            names[call_id] = name
            yield from self.begin_call(call_id, name, call.get("arguments"), call, run_id)
        for result in map(record_of, items_of(record_of(step.get("observation")).get("results"))):
            call_id = text_of(result.get("source_call_id"))
            for reference in map(record_of, items_of(result.get("subagent_trajectory_ref"))):
                yield from self._agent(text_of(reference.get("trajectory_id")), call_id)
            success = record_of(result.get("extra")).get("success")
            if call_id:
                yield from self.end_call(
                    call_id,
                    output_of(result.get("content")),
                    success=success if isinstance(success, bool) else None,
                    name=names.get(call_id, ""),
                    run_id=run_id,
                )
            elif text := output_of(result.get("content")):
                yield Message(role="system", text=text, run_id=run_id)

    def _agent(self, key: str, call_id: str) -> Iterator[Event]:
        record = self._embedded.pop(key, None)
        if record is None:
            return  # it is in another file
        agent = record_of(record.get("agent"))
        yield SessionStart(
            run_id=key,
            parent_id=call_id,
            name=text_of(agent.get("name")),
            model=text_of(agent.get("model_name")),
        )
        yield from self._steps(record, key)
        yield Result(run_id=key, success=True, text=self._texts.get(key, ""))

    def _usage(self, step: Record, run_id: str) -> Iterator[Event]:
        metrics = record_of(step.get("metrics"))
        if not metrics:
            return
        extra, cache_read = record_of(metrics.get("extra")), count_of(metrics.get("cached_tokens"))
        cache_write = count_of(extra.get("cache_write"))
        reasoning = count_of(extra.get("reasoning"))
        usage = Usage(
            input=besides(count_of(metrics.get("prompt_tokens")), cache_read, cache_write),
            output=besides(count_of(metrics.get("completion_tokens")), reasoning),
            cache_read=cache_read,
            cache_write=cache_write,
            reasoning=reasoning,
            cost_usd=amount_of(metrics.get("cost_usd")),
        )
        yield UsageDelta(usage=usage, model=text_of(step.get("model_name")), run_id=run_id)


TRANSLATOR = AtifTranslator
