"""The commands that a client sends to a conversation: one closed union, `type` on the wire, camelCase names.

The result of a command is seen in the state. Unknown fields are ignored, wrong shapes are refused.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

MOST_AT_ONCE = 64


class _Command(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type"
):
    id: str = ""
    """Chosen by the client, and returned with an error."""


class Attached(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An image or a document; `data` is base64."""

    media_type: str
    data: str
    name: str = ""


class Submit(_Command, frozen=True, kw_only=True, tag="submit"):
    """A prompt: starts a run, or is queued during one."""

    prompt: str
    attachments: tuple[Attached, ...] = ()


class Cancel(_Command, frozen=True, kw_only=True, tag="cancel"):
    """Stop the run, if there is one. The queue waits for `continue` or another prompt, or is cleared."""

    queue: Literal["keep", "clear"] = "keep"


class Continue(_Command, frozen=True, kw_only=True, tag="continue"):
    """Send what is queued, one prompt after the other: after a stop, or a restart."""


class Steer(_Command, frozen=True, kw_only=True, tag="steer"):
    """Send a message to the current run."""

    message: str


class Approve(_Command, frozen=True, kw_only=True, tag="approve"):
    """Let a call happen that waits to be allowed."""

    tool_call_id: str = ""
    relay_id: str = ""
    always: bool = False
    """Also grant what the first option `allow-always` of the `Relay` grants."""
    option_id: str = ""
    """The id of another option of the `Relay`."""
    arguments_hash: str = ""
    """Of the ask that was shown (`RowAsk.argumentsHash`): if another one is open, the command is refused."""


class Deny(_Command, frozen=True, kw_only=True, tag="deny"):
    tool_call_id: str = ""
    relay_id: str = ""
    reason: str = ""
    arguments_hash: str = ""


class AnswerCommand(_Command, frozen=True, kw_only=True, tag="answer"):
    """Answer a question, a plan, or a tool that waits."""

    relay_id: str
    answer: Any = None
    arguments_hash: str = ""


class Revoke(_Command, frozen=True, kw_only=True, tag="revoke"):
    """Ask again about what was always allowed: one grant, or without an id all of them."""

    grant_id: str = ""


class Resume(_Command, frozen=True, kw_only=True, tag="resume"):
    """A prompt that continues the history of a session that has ended; empty: that of this one."""

    prompt: str
    session_id: str = ""


class Configuration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """None: as it is. Empty: the agent's own default."""

    agent: str | None = None
    runner: str | None = None
    model: str | None = None
    mode: str | None = None
    permission_mode: Literal["default", "acceptEdits", "fullAuto", "readOnly"] | None = None
    max_turns: int | None = None
    system_prompt: str | None = None
    effort: Literal["low", "medium", "high", "max"] | None = None
    cwd: str | None = None


class Configure(_Command, frozen=True, kw_only=True, tag="configure"):
    """Change the setup of the following runs."""

    config: Configuration


class Compact(_Command, frozen=True, kw_only=True, tag="compact"):
    """Let the agent sum up the conversation so far; the log keeps everything."""

    focus: str = ""
    """What matters most in the summary."""


class Withdraw(_Command, frozen=True, kw_only=True, tag="withdraw"):
    """Take a prompt out of the queue."""

    follow_up_id: str


class Rename(_Command, frozen=True, kw_only=True, tag="rename"):
    title: str


Command: TypeAlias = (
    Submit
    | Cancel
    | Continue
    | Steer
    | Approve
    | Deny
    | AnswerCommand
    | Revoke
    | Resume
    | Configure
    | Compact
    | Withdraw
    | Rename
)


class Commands(msgspec.Struct, frozen=True, tag_field="type", tag="commands"):
    """What a client sends."""

    commands: list[Command]


class BadCommands(ValueError):
    """Not a message of commands. `is_hostile`: it cannot be a mistake."""

    def __init__(self, message: str, *, is_hostile: bool = False) -> None:
        super().__init__(message)
        self.is_hostile = is_hostile


def read(text: str | bytes) -> list[Command]:
    """The commands of one message, all or none. Raises BadCommands."""
    try:
        batch = _decoder.decode(text).commands
    except RecursionError as error:
        raise BadCommands("the message is nested too deeply", is_hostile=True) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadCommands(f"not a message of commands: {error}") from error
    if len(batch) > MOST_AT_ONCE:
        raise BadCommands(f"at most {MOST_AT_ONCE} commands in one message")
    return batch


_decoder = msgspec.json.Decoder(Commands)
