"""Commands that change no file, so that a row need not say "at least" after them.

A guess for what is shown, which decides nothing: `approvals/free_commands.py` proves that a command only reads.
"""

from __future__ import annotations

from harness.approvals.command_grammar import names, parse

_READERS = names(
    "basename cat cd cmp cut date diff dirname du echo egrep false fgrep file grep head hexdump id jq ls nl od printenv"
    " pwd rg stat tail tr tree true type uname wc which whoami"
)
_OF_GIT = names("blame describe diff grep log ls-files rev-parse shortlog show status")


def may_change_files(line: str) -> bool:
    """Whether a command line may have changed files, as far as its words tell."""
    plain = parse(line)
    return plain is None or not all(_only_reads(command) for command in plain.commands)


def _only_reads(command: list[str]) -> bool:
    if command[:1] == ["git"]:
        return len(command) > 1 and command[1] in _OF_GIT
    return bool(command) and command[0] in _READERS
