"""The slash commands of a chat: for Harness, not for the agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from harness.cli.chat.conversation import TerminalConversation
from harness.cli.chat.turns import last_compaction
from harness.clients.commands import Compact, Configuration, Configure
from harness.errors import UsageError
from harness.formatting.escapes import single_line
from harness.views.usage import summary

PermissionMode: TypeAlias = Literal["default", "acceptEdits", "fullAuto", "readOnly"]

PERMISSION_MODES: dict[str, PermissionMode] = {
    "ask": "default",
    "accept-edits": "acceptEdits",
    "full-access": "fullAuto",
    "read-only": "readOnly",
}
"""What is typed → the permission mode of the conversation."""
_MODES = ("build", "plan")


class SlashCommand(NamedTuple):
    argument: str
    """What follows its name; empty: nothing does."""
    summary: str
    act: Callable[[TerminalConversation, str], None]


def carry_out(conversation: TerminalConversation, text: str) -> None:
    """Raises HarnessError for what cannot be done."""
    name, _, argument = text.partition(" ")
    command = COMMANDS.get(name)
    if command is None and name.removeprefix("/") in conversation.actions.commands():
        conversation.send_prompt(text)
        return
    if command is None:
        raise UsageError(
            f"unknown command: {single_line(name)[:60]}",
            hint="/help lists them, a project's own once it is trusted (harness trust); //TEXT sends /TEXT to the agent",
        )
    command.act(conversation, argument.strip())


def _help(conversation: TerminalConversation, argument: str) -> None:
    del argument
    lines = [
        f"{f'{name} {command.argument}'.strip():<20} {command.summary}" for name, command in COMMANDS.items()
    ]
    own = conversation.actions.commands().values()
    lines += [
        f"{single_line(f'/{command.name} {command.argument}'.strip()):<20} {single_line(command.description)}"
        for command in own
    ]
    lines += [
        "",
        "What you type is a prompt. While the agent works it steers it, or is queued if it takes no messages;",
        "while a question waits it is the answer. Ctrl-C stops the turn, again: by force. //TEXT sends /TEXT.",
    ]
    conversation.terminal.say("\n".join(lines))


def _configure(conversation: TerminalConversation, configuration: Configuration, what: str) -> None:
    """`what`: the message to print, where no event of the log shows it."""
    is_logged = bool(conversation.link.log_id) and configuration.permission_mode is None
    conversation.link.send(Configure(config=configuration))
    if not is_logged:
        conversation.terminal.say(f"· {what}")


def _require_idle(conversation: TerminalConversation) -> None:
    if conversation.is_running:
        raise UsageError("a turn is in progress", hint="stop it with Ctrl-C, or wait until it has ended")


def _model(conversation: TerminalConversation, argument: str) -> None:
    state = conversation.state
    if not argument:
        conversation.terminal.say(f"model: {single_line(state.model) or 'the default of the agent'}")
        return
    model = conversation.actions.resolve_model(argument)
    _configure(conversation, Configuration(model=model), f"model {single_line(model)}")
    state.model = model


def _mode(conversation: TerminalConversation, argument: str) -> None:
    if argument not in _MODES:
        conversation.terminal.say(f"mode: {conversation.state.mode} (there are: {', '.join(_MODES)})")
        return
    if argument != conversation.state.mode:
        _require_idle(conversation)
        _configure(conversation, Configuration(mode=argument), f"mode {argument}")
        conversation.state.mode = argument


def _permissions(conversation: TerminalConversation, argument: str) -> None:
    state, modes = conversation.state, ", ".join(PERMISSION_MODES)
    if not argument:
        conversation.terminal.say(
            f"permissions: {state.permissions or 'as it was started'} (there are: {modes})"
        )
        return
    mode = PERMISSION_MODES.get(argument)
    if mode is None:
        raise UsageError(f"unknown permissions: {single_line(argument)[:60]}", hint=f"there are: {modes}")
    _configure(conversation, Configuration(permission_mode=mode), f"permissions {argument}")
    state.permissions = argument


def _attach(conversation: TerminalConversation, argument: str) -> None:
    from harness.clients.prompt_files import attached_files

    if argument == "none":
        conversation.attached.clear()
    elif argument:
        conversation.attached += attached_files([argument])
    names = ", ".join(single_line(attachment.name) for attachment in conversation.attached)
    message = f"with the next prompt: {names}" if names else "nothing is attached; /attach FILE attaches one"
    conversation.terminal.say(f"· {message}")


def _compact(conversation: TerminalConversation, argument: str) -> None:
    _require_idle(conversation)
    if not conversation.link.log_id:
        raise UsageError("there is nothing to sum up yet", hint="/compact makes room in a long conversation")
    if argument == "undo":
        conversation.actions.undo_compaction(conversation)
    elif argument == "show":
        conversation.terminal.say(_last_summary(conversation))
    else:
        conversation.link.send(Compact(focus=argument))


def _last_summary(conversation: TerminalConversation) -> str:
    """What the model is sent in place of what was said before."""
    log_id = conversation.link.log_id
    event = last_compaction(conversation.link.store, log_id).event
    if event is None:
        return "· nothing was summed up yet"
    text = (
        event.summary
        or f"long outputs were shortened to {event.longest_output} characters; nothing was summed up"
    )
    return f"{text}\n· all of it: harness sessions show {log_id[:8]}"


def _clear(conversation: TerminalConversation, argument: str) -> None:
    del argument
    _require_idle(conversation)
    if not conversation.link.log_id:
        raise UsageError("this conversation is new", hint="type a prompt")
    conversation.actions.begin_anew(conversation)


def _resume(conversation: TerminalConversation, argument: str) -> None:
    _require_idle(conversation)
    conversation.actions.resume(conversation, argument)


def _status(conversation: TerminalConversation, argument: str) -> None:
    del argument
    state, status = conversation.state, conversation.status
    now = "waits for an answer" if status.is_waiting else "works" if status.is_running else "idle"
    rows = {
        "agent": f"{state.agent} ({now})",
        "model": state.model or "the default of the agent",
        "mode": state.mode,
        "permissions": state.permissions or "as it was started",
        "folder": state.folder,
        "session": conversation.link.log_id or "none yet",
        "used here": summary(conversation.usage.value),
        "running": ", ".join(status.background),
        "always": ", ".join(grant["label"] for grant in status.grants),
    }
    lines = (f"{name + ':':<13}{single_line(text)}" for name, text in rows.items() if text)
    conversation.terminal.say("\n".join(lines))


def _mcp(conversation: TerminalConversation, argument: str) -> None:
    del argument
    servers = conversation.actions.mcp_servers(conversation)
    lines = [
        single_line(f"{name}: {server.state} · {server.problem or ', '.join(server.tools) or 'no tools'}")
        for name, server in servers.items()
    ]
    conversation.terminal.say(
        "\n".join(lines) or "there are no MCP servers; harness chat --mcp FILE brings some"
    )


def _undo(conversation: TerminalConversation, argument: str) -> None:
    """The first time it shows what would go; `yes` does exactly that."""
    from harness.clients.changes.undo import UndoCall, undo_of
    from harness.clients.changes.undo_lines import summary_of

    _require_idle(conversation)
    if not conversation.link.log_id:
        raise UsageError("nothing was done yet")
    if argument == "yes":
        turn, digest, log_id = conversation.shown_undo
        conversation.shown_undo = ("", "", "")
        if not digest:
            raise UsageError("nothing was shown that could be taken back", hint="/undo [TURN] shows it")
        answer = undo_of(conversation.link.store, log_id, UndoCall(turn=turn, expect=digest))
        conversation.terminal.say(f"· {summary_of(answer, redo='/redo')}")
        return
    show_undo(conversation, conversation.link.log_id, argument, "there is nothing to do")


def show_undo(conversation: TerminalConversation, log_id: str, turn: str, if_none: str) -> None:
    """What an undo would take back, and that `/undo yes` does it. Raises HarnessError."""
    from harness.clients.changes.undo import UndoCall, undo_of
    from harness.clients.changes.undo_lines import count_of, lines_of

    answer = undo_of(conversation.link.store, log_id, UndoCall(turn=turn))
    conversation.shown_undo = (turn, answer.digest, log_id)
    ending = "/undo yes takes these back" if count_of(answer) else if_none
    conversation.terminal.say("\n".join([*lines_of(answer), f"· {ending}"]))


def _rewind(conversation: TerminalConversation, argument: str) -> None:
    _require_idle(conversation)
    if not conversation.link.log_id:
        raise UsageError("nothing was said yet")
    conversation.actions.rewind(conversation, argument)


def _redo(conversation: TerminalConversation, argument: str) -> None:
    from harness.clients.changes.undo import UndoCall, undo_of
    from harness.clients.changes.undo_lines import lines_of, summary_of

    del argument
    _require_idle(conversation)
    store, log_id = conversation.link.store, conversation.link.log_id
    if not log_id:
        raise UsageError("nothing was done yet")
    plan = undo_of(store, log_id, UndoCall(), is_redo=True)
    answer = undo_of(store, log_id, UndoCall(expect=plan.digest), is_redo=True)
    conversation.terminal.say("\n".join([*lines_of(answer), f"· {summary_of(answer, is_redo=True)}"]))


def _quit(conversation: TerminalConversation, argument: str) -> None:
    del argument
    conversation.leave()


COMMANDS = {
    "/model": SlashCommand("[NAME]", "show or change the model", _model),
    "/mode": SlashCommand("[build|plan]", "show or change the mode", _mode),
    "/permissions": SlashCommand(
        "[MODE]", f"show or change them: {', '.join(PERMISSION_MODES)}", _permissions
    ),
    "/attach": SlashCommand(
        "[FILE|none]", "a picture, PDF or text for the next prompt; @FILE in a prompt does the same", _attach
    ),
    "/compact": SlashCommand(
        "[FOCUS|show|undo]",
        "sum up the conversation, which makes room; show the summary; go on without it",
        _compact,
    ),
    "/clear": SlashCommand("", "begin a new conversation, as it is set up now; this one is stored", _clear),
    "/new": SlashCommand("", "the same", _clear),
    "/resume": SlashCommand("[ID]", "list the latest sessions, or continue one", _resume),
    "/status": SlashCommand("", "agent, model, mode, permissions, folder, session, tokens", _status),
    "/mcp": SlashCommand("", "the MCP servers of the built-in agent: their state and tools", _mcp),
    "/undo": SlashCommand(
        "[TURN|yes]", "show what a turn changed, commands included; yes takes it back", _undo
    ),
    "/rewind": SlashCommand(
        "[TURN]", "list the turns, or go on from before one, in a new session; offers its files too", _rewind
    ),
    "/redo": SlashCommand("", "bring back what the last undo took", _redo),
    "/show": SlashCommand(
        "", "show a question that was cut", lambda conversation, _: conversation.show_question()
    ),
    "/cancel": SlashCommand(
        "", "stop the turn; again: by force", lambda conversation, _: conversation.stop()
    ),
    "/help": SlashCommand("", "this list", _help),
    "/quit": SlashCommand("", "leave; the session is stored", _quit),
}
