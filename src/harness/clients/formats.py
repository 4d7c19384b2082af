"""The output formats: the files of `views/`, under the names of `--format`."""

from __future__ import annotations

import os
from importlib import import_module

from harness import views
from harness.errors import UnknownView
from harness.stage import View, ViewOptions

BEST_NAMES = {"stream": "ndjson", "result": "json", "transcript": "pretty"}
"""The views that are documented under another name."""
ALIASES = {
    **{best: name for name, best in BEST_NAMES.items()},
    "stream-json": "stream",
    "md": "markdown",
}
FOR_PROGRAMS, FOR_PEOPLE = "stream", "transcript"
SHOW_ERRORS_THEMSELVES = ("stream", "log", "transcript", "events", "session-events", "html")
JSON_LINES = ("acp", "activity", "agui", "delta", "events", "log", "otel", "session-events", "stream")
"""These write one JSON document a line, for programs."""
JSON = (*JSON_LINES, "atif", "display", "graph", "result", "state", "usage")
TO_PASS_ON = ("html",)
"""Documents that people give to others: secrets are masked in them once more, however the log was recorded."""
SUMMED_UP = ("text", "markdown")
"""After these, tokens and cost are printed on standard error."""


def names() -> list[str]:
    """The files of `views/`, without importing any."""
    return sorted(
        entry[:-3].replace("_", "-")
        for folder in views.__path__
        for entry in os.listdir(folder)
        if entry.endswith(".py") and not entry.startswith("_")
    )


def spellings() -> list[str]:
    """Everything that `--format` takes."""
    present = names()
    return sorted({*present, *(alias for alias, name in ALIASES.items() if name in present)})


def help_text() -> str:
    """Each view once, under its best name."""
    names_shown = sorted(BEST_NAMES.get(name, name) for name in names())
    return f"{', '.join(names_shown)} (default: pretty on a terminal, else ndjson)"


def find(text: str) -> str:
    """The view of that name or alias. Raises UnknownView."""
    name = text.strip().lower().replace("_", "-")
    name = ALIASES.get(name, name)
    if name not in names():
        raise UnknownView(f"unknown output format: {text}", hint=f"expected one of: {', '.join(spellings())}")
    return name


def choose(text: str, *, is_terminal: bool) -> str:
    """The view that was asked for, else what suits the reader."""
    return find(text) if text else FOR_PEOPLE if is_terminal else FOR_PROGRAMS


def open_view(name: str, options: ViewOptions) -> View:
    view: View = import_module(f"{views.__name__}.{name.replace('-', '_')}").open(options)
    return view
