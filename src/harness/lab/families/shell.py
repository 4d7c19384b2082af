"""Reading, searching and listing through a shell, as the models of many agents do where there is no tool for it."""

from __future__ import annotations

import shlex

from harness.sources.models.script import ListIntent, ReadIntent, SearchIntent


def read_command(read: ReadIntent) -> str:
    path = shlex.quote(read.path)
    return f"sed -n '{read.lines[0]},{read.lines[1]}p' {path}" if read.lines else f"cat {path}"


def search_command(search: SearchIntent) -> str:
    return f"grep -rn -- {shlex.quote(search.query)} {shlex.quote(search.path)}"


def list_command(listing: ListIntent) -> str:
    return f"ls {shlex.quote(listing.path)}"
