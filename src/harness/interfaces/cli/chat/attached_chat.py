"""`harness attach` to a session that runs in another program of the same user."""

from __future__ import annotations

import argparse
import os

from harness.errors import UsageError
from harness.interfaces.cli.chat.conversation import ChatState, TerminalConversation
from harness.interfaces.cli.chat.link import ChannelLink
from harness.interfaces.cli.chat.own_chat import chat_view, latest_run, run_with_signals
from harness.interfaces.cli.chat.terminal import ChatTerminal
from harness.log.stores.files import FileStore

_GREETING = "What you type steers the run, or answers it. /help lists commands, /quit leaves."


class _Elsewhere:
    """The `Actions` of a conversation that belongs to another program."""

    def resolve_model(self, name: str) -> str:
        return name

    def resume(self, conversation: TerminalConversation, session: str) -> None:
        del conversation, session
        raise UsageError(
            "this terminal follows one session", hint="`harness chat --resume ID` continues another"
        )


def follow(store: FileStore, log_id: str, arguments: argparse.Namespace) -> int | None:
    """Until the session ends or the person leaves; the exit code. None when its program takes no commands."""
    metadata = store.metadata(log_id)
    with ChatTerminal(os.environ) as terminal:
        try:
            link = ChannelLink(store, log_id, terminal.wake)
        except OSError:
            return None
        state = ChatState(
            agent=metadata.agent or "the agent", folder=metadata.cwd, model=metadata.model, mode=""
        )
        conversation = TerminalConversation(
            link, terminal, chat_view(arguments.color), state, _Elsewhere(), only_looks=arguments.read_only
        )
        if terminal.is_interactive and not arguments.read_only:
            terminal.say(_GREETING)
        conversation.follow(latest_run(store, log_id))
        try:
            return run_with_signals(conversation)
        finally:
            link.close()
