"""The options that say which sessions are meant, and whether one of the store is."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from harness.interfaces.cli.parser import completes, moment_ms

if TYPE_CHECKING:
    from harness.log.store import Metadata

_OUTCOMES = (
    "waiting",
    "running",
    "completed",
    "failed",
    "timed_out",
    "stalled",
    "limit_exceeded",
    "interrupted",
    "unknown",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    completes(add("-a", "--agent", default="", metavar="NAME", help="only those of this agent"), "agents")
    outcome = parser.add_mutually_exclusive_group().add_argument
    outcome("--outcome", default="", metavar="WORD", help=f"only those that are {', '.join(_OUTCOMES)}")
    outcome("--failed", dest="outcome", action="store_const", const="failed", help="only those that failed")
    help_text = "only those with this tag (may be repeated)"
    add("--tag", action="append", default=[], metavar="TEXT", help=help_text)
    help_text = "only those started since 2026-08-31, today, 12h, 7d, 4w"
    add("--since", type=moment_ms, metavar="TIME", help=help_text)
    add("--until", type=moment_ms, metavar="TIME", help="only those started before then")
    add("--project", default="", metavar="DIR", help="only those that worked in this directory, or below it")
    add("--model", default="", metavar="TEXT", help="only those of models whose name contains this")
    help_text = "also sessions of sub-agents, and those that their agent has deleted"
    add("--all", action="store_true", help=help_text)
    parser.set_defaults(live=False)


def check(arguments: argparse.Namespace) -> None:
    """Raises UsageError, UnknownAgent."""
    from harness.errors import UsageError
    from harness.sources.registry import load

    if arguments.agent:
        arguments.agent = load(arguments.agent).name
    arguments.outcome = arguments.outcome.replace(" ", "_").replace("-", "_")
    if arguments.outcome not in ("", *_OUTCOMES):
        hint = f"expected one of: {', '.join(_OUTCOMES)}"
        raise UsageError(f"unknown outcome: {arguments.outcome}", hint=hint)


def is_filtered(arguments: argparse.Namespace) -> bool:
    times = (arguments.since, arguments.until)
    words = (arguments.agent, arguments.outcome, arguments.tag, arguments.project, arguments.model)
    return any(words) or arguments.live or times != (None, None)


def is_meant(metadata: Metadata, arguments: argparse.Namespace) -> bool:
    """Whether a session of the store is."""
    from harness.log.query import age

    created_ms, _ = age(metadata)
    return (
        arguments.model.lower() in metadata.model.lower()
        and _is_below(metadata.cwd, arguments.project)
        and (not arguments.live or metadata.outcome in ("running", "waiting"))
        and arguments.agent in ("", metadata.agent_name)
        and arguments.outcome in ("", metadata.outcome)
        and set(arguments.tag) <= set(metadata.tags)
        and (arguments.since is None or created_ms >= arguments.since)
        and (arguments.until is None or created_ms < arguments.until)
    )


def _is_below(directory: str, project: str) -> bool:
    """Whether a directory is that of the project, or lies in it."""
    if not project:
        return True
    root = os.path.abspath(os.path.expanduser(project))
    return directory == root or directory.startswith(root.rstrip(os.sep) + os.sep)
