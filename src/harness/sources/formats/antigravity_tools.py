"""What the tools of Antigravity mean: they name their parameters like `AbsolutePath`."""

from __future__ import annotations

from harness.events.operation import Fetch, Operation, Read, Write
from harness.sources.formats.fields import count_of, first_text, items_of, record_of, text_of
from harness.sources.formats.meanings import Input, Meaning, listing, nothing, running, searching, spawning
from harness.sources.formats.paths import absolute
from harness.sources.formats.toolset import Toolset, lines_of

SHELL = "run_command"

_PATHS = ("AbsolutePath", "TargetFile", "File", "FilePath", "Path", "path")


def _path_of(asked: Input, cwd: str) -> str:
    return absolute(first_text(asked, *_PATHS).removeprefix("file://"), cwd)


def _view(asked: Input, cwd: str) -> list[Operation] | None:
    path = _path_of(asked, cwd)
    start, end = (count_of(asked.get(name)) or None for name in ("StartLine", "EndLine"))
    return [Read(path=path, start_line=start, end_line=end)] if path else None


def _write(asked: Input, cwd: str) -> list[Operation] | None:
    path = _path_of(asked, cwd)
    start, end = lines_of(text_of(asked.get("CodeContent")))
    return [Write(path=path, start_line=start, end_line=end)] if path else None


def _replace(asked: Input, cwd: str) -> list[Operation] | None:
    """One place of a file, or several (`ReplacementChunks`), of which the range then spans all."""
    path = _path_of(asked, cwd)
    chunks = [record_of(chunk) for chunk in items_of(asked.get("ReplacementChunks"))] or [asked]
    starts, ends = (
        [number for chunk in chunks if (number := count_of(chunk.get(name)))]
        for name in ("StartLine", "EndLine")
    )
    start, end = min(starts, default=None), max(ends, default=None)
    return [Write(path=path, start_line=start, end_line=end, change="update")] if path else None


def _fetch(asked: Input, _cwd: str) -> list[Operation] | None:
    url, query = first_text(asked, "Url", "url"), first_text(asked, "query", "Query")
    return [Fetch(url=url, query=query)] if url or query else None


_MEANINGS: dict[str, Meaning] = {
    "browser_subagent": spawning("Task", "TaskSummary", names=("TaskName",)),
    "codebase_search": searching("Query", paths=("TargetDirectories",)),
    "find_by_name": searching("Pattern", paths=("SearchDirectory",)),
    "grep_search": searching("Query", "query", paths=("SearchPath",)),
    "list_dir": listing("DirectoryPath", "AbsolutePath", "path"),
    "multi_replace_file_content": _replace,
    "read_url_content": _fetch,
    "replace_file_content": _replace,
    SHELL: running("CommandLine", "command", directory="Cwd"),
    "search_web": _fetch,
    "view_code_item": _view,
    "view_file": _view,
    "view_file_outline": _view,
    "write_to_file": _write,
} | dict.fromkeys(
    (
        "command_status",
        "generate_image",
        "list_resources",
        "notify_user",
        "read_resource",
        "read_terminal",
        "send_command_input",
        "task_boundary",
    ),
    nothing,
)

ANTIGRAVITY = Toolset(meanings=_MEANINGS)
