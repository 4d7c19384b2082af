"""Chat with an agent in this terminal: prompts, streamed answers and approvals, in one session.

What you type while the agent works steers it, or is queued if it takes no messages. Ctrl-C stops the turn, not
the conversation. /help lists the commands. Lines may also come from a pipe, one prompt each: the next one is sent when
the turn has ended, and answers a question if one waits.
"""

from __future__ import annotations

import argparse

from harness.cli.console import Console
from harness.cli.folder_question import FOLDER_SETTINGS_HELP, USES
from harness.cli.gateway_options import add_gateway
from harness.cli.parser import add_at_limit, at_least_zero, completes, count, positive, seconds, window
from harness.cli.tracing import add_collector

SUMMARY = "chat with an agent in this terminal"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_text = "the agent (default: the one that is installed, else native)"
    completes(add("-a", "--agent", default="", metavar="NAME", help=help_text), "agents")
    add("-m", "--model", default="", metavar="NAME", help="model name or alias (see `harness models`)")
    help_text = (
        "ask (default: before it changes or runs anything), accept-edits, full-access, read-only or plan"
    )
    add("--permissions", default="", metavar="MODE", help=help_text)
    add("--folder-settings", choices=USES, default="", metavar="use|none", help=FOLDER_SETTINGS_HELP)
    add("--sandbox", action="store_true", help="confine it to the workspace and its own files")
    add_gateway(add)
    add("--mode", default="", metavar="MODE", help="build (default) or plan")
    add("-d", "--cwd", default="", metavar="DIR", help="where the agent works (default: here)")
    help_text = "a picture, PDF or text file beside the first prompt (may be repeated)"
    add("--attach", action="append", default=[], metavar="FILE", help=help_text)
    add("--resume", default="", metavar="ID", help="continue this session (`last`: the latest one)")
    help_text = "how much the model reasons: low, medium, high, or another level of its provider"
    add("--effort", default="", metavar="LEVEL", help=help_text)
    add("--system-prompt", default="", metavar="TEXT", help="more instructions for this conversation")
    add("--max-turns", type=count, metavar="N", help="model turns for one message")
    add("--max-budget-usd", type=positive, metavar="USD", help="maximum cost of the answer to one message")
    add_collector(parser)
    add("--timeout", type=seconds, metavar="SECONDS", help="for the answer to one message: 90, 90s, 5m or 2h")
    add_at_limit(add)
    _add_own(parser.add_argument_group("the built-in agent"))
    add("--reasoning", action="store_true", help="also show the model's reasoning")


def _add_own(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    help_text = "use the servers of this mcp.json, besides your own (may be repeated)"
    add("--mcp", action="append", default=[], metavar="FILE", help=help_text)
    add("--append-system-prompt", default="", metavar="TEXT", help="after the agent's own")
    add("--temperature", type=at_least_zero, metavar="NUMBER", help="of the model's answers")
    add("--max-output-tokens", type=count, metavar="N", help="for one answer of the model")
    help_text = "how many tokens the model can read, if its name does not say so"
    add("--context-window", type=window, metavar="N", help=help_text)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences
    from harness.cli.chat.own_chat import OwnChat

    settings = preferences.load(console, has_verbose=arguments.verbose)
    settings.require_valid()
    return OwnChat(arguments, settings, preferences.open_store(settings), console).run()
