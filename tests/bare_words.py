"""Words that are no names by themselves: for `test_vocabulary.py`, and the meter `benchmarks/counts.py`."""

from __future__ import annotations

ANY_ONE = "one"
"""Says nothing at all."""
PARTICIPLES = frozenset(
    [
        *("asked", "awaited", "begun", "called", "chosen", "counted", "done", "ended", "fed"),
        *("filled", "found", "given", "gone", "held", "kept", "known", "left", "listed"),
        *("loaded", "looked", "made", "meant", "named", "needed", "offered", "opened", "owed"),
        *("parsed", "picked", "put", "read", "reached", "recorded", "said", "seen", "sent"),
        *("shown", "spent", "spoken", "started", "stated", "stored", "taken", "told", "tried"),
        *("used", "wanted", "waited", "worded", "written"),
    ]
)
"""They say what happened to a thing, and not what it is: `asked` may be a question, a call or a time."""
