"""Events that name their run, one JSON object a line: `type`, `runId`, and `parentId` where there is one.

    {"type":"text","runId":"0198…","parentId":"0197…","id":"m1","content":"Hel"}

Rules
1. Types: harness_start, harness_end, text, reasoning, tool_call, tool_result, tool_progress, usage, error,
   relay, repl_input, repl_progress, repl_output. What has no value is absent.
2. A built-in agent emits each call of its model as a separate run (`parentId` is the agent's run): text,
   reasoning, usage, and the calls that the model asks for, under the model's own ids. A call that is carried
   out follows as another `tool_call` of the agent's run. Other agents have no separate runs for their model.
3. `parentId` of a sub-agent is the id of the call that started it, on each of its events.
4. `inputTokens` is the whole prompt, cached or not; `outputTokens` includes reasoning.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.events import Event
from harness.folds.run_events.events import UNTOLD
from harness.folds.run_events.translation import WireTranslation
from harness.formatting.json_text import encode
from harness.stage import View, ViewOptions


class Events:
    def __init__(self) -> None:
        self._translation = WireTranslation()

    def feed(self, event: Event, /) -> Sequence[bytes]:
        wire_events = self._translation.feed(event)
        return [encode(each) + b"\n" for each in wire_events if type(each) not in UNTOLD]

    def finish(self) -> Sequence[bytes]:
        return ()


def open(options: ViewOptions) -> View:
    del options
    return Events()
