"""The conversation graph in the language of Graphviz, after the end. Dashed arrows lead to sub-agents.

harness sessions show last --format dot | dot -Tsvg > conversation.svg
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.events import Event
from harness.folds.conversation.data import GraphFold
from harness.folds.conversation.drawing import drawing
from harness.stage import Fold, ViewOptions

_SHAPES = {
    "harness_start": "oval",
    "harness_end": "oval",
    "user": "parallelogram",
    "tool_call": "hexagon",
    "tool_result": "component",
    "relay": "diamond",
    "error": "octagon",
    "repl_input": "hexagon",
    "repl_output": "component",
}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})


class Dot(GraphFold):
    def finish(self) -> Sequence[bytes]:
        return ("".join(f"{line}\n" for line in self._lines()).encode(),)

    def _lines(self) -> Iterator[str]:
        drawn = drawing(self.value, self.names)
        yield "digraph conversation {"
        yield '  node [shape=box, fontname="sans-serif"];'
        for box in drawn.boxes:
            shape = f", shape={_SHAPES[box.kind]}" if box.kind in _SHAPES else ""
            yield f'  {box.name} [label="{box.label.translate(_ESCAPES)}"{shape}];'
        for arrow in drawn.arrows:
            yield f"  {arrow.source} -> {arrow.target}{' [style=dashed]' if arrow.is_spawn else ''};"
        yield "}"


def open(options: ViewOptions) -> Fold[Event, bytes]:
    del options
    return Dot()
