"""The conversation graph as a Mermaid flowchart, after the end. Dotted arrows lead to sub-agents.

Renderers refuse more than 500 arrows unless configured otherwise; the format `dot` has no such limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.events import Event
from harness.folds.conversation.data import GraphFold
from harness.folds.conversation.drawing import drawing
from harness.stage import Fold, ViewOptions

_SHAPES = {
    "harness_start": '(["{}"])',
    "harness_end": '(["{}"])',
    "user": '[/"{}"/]',
    "reasoning": '("{}")',
    "tool_call": '{{{{"{}"}}}}',
    "tool_result": '[["{}"]]',
    "relay": '{{"{}"}}',
    "error": '>"{}"]',
    "repl_input": '{{{{"{}"}}}}',
    "repl_output": '[["{}"]]',
}
_PLAIN = '["{}"]'
_SAFE = frozenset(" .,:/_=+-…()[]'!?")


class Mermaid(GraphFold):
    def finish(self) -> Sequence[bytes]:
        return ("".join(f"{line}\n" for line in self._lines()).encode(),)

    def _lines(self) -> Iterator[str]:
        drawn = drawing(self.value, self.names)
        yield "flowchart TD"
        for box in drawn.boxes:
            yield f"  {box.name}{_SHAPES.get(box.kind, _PLAIN).format(_escaped(box.label))}"
        for arrow in drawn.arrows:
            yield f"  {arrow.source} {'-.->' if arrow.is_spawn else '-->'} {arrow.target}"


def _escaped(label: str) -> str:
    """Quotes do not escape everything: directives, entities and Markdown work inside them too."""
    return "".join(letter if letter.isalnum() or letter in _SAFE else f"#{ord(letter)};" for letter in label)


def open(options: ViewOptions) -> Fold[Event, bytes]:
    del options
    return Mermaid()
