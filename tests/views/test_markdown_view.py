"""The document says everything once and stays well-formed whatever it quotes."""

from __future__ import annotations

from harness.events import (
    Error,
    Message,
    Result,
    SessionStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
)
from showing import shown


def test_a_run_reads_as_a_document() -> None:
    text = shown(
        "markdown",
        SessionStart(session_id="s-1", agent="claude", model="m-1"),
        Message(role="user", text="Fix it"),
        TextDelta(id="a", text="Look"),
        TextDelta(id="a", text="ing."),
        Message(role="assistant", id="a", text="Looking."),
        ToolStart(call_id="call_1", tool_name="Read", input={"path": "a.py"}),
        ToolEnd(call_id="call_1", tool_name="Read", success=True, output="x = 1\n"),
        UsageDelta(usage=Usage(input=1200, output=30, cost_usd=0.05)),
        Result(success=True, text="Fixed.", duration_ms=2000),
    )

    assert text == (
        "# harness session — claude\n\n"
        "**Model:** m-1\n\n"
        "---\n\n"
        "**Session:** s-1\n\n"
        "### User\n\nFix it\n\n"
        "### Assistant\n\nLooking.\n\n"
        "> **Tool:** `Read` (call_1)\n\n"
        '```json\n{\n  "path": "a.py"\n}\n```\n\n'
        "> **Tool done:** `Read` (call_1) [ok]\n\n"
        "```\nx = 1\n```\n\n"
        "---\n\n"
        "**Result:** Success\n\n"
        "Fixed.\n\n"
        "Total: 1.2k in / 30 out, $0.050, 2.0s\n"
    )


def test_failures_are_said() -> None:
    text = shown(
        "markdown",
        SessionStart(agent="codex"),
        ToolEnd(call_id="c", tool_name="shell", success=False, exit_code=3),
        ToolEnd(call_id="d", tool_name="shell"),
        Error(message="timed out\nafter 5 s", code="timeout"),
        Error(message="again"),
        Result(success=False, outcome="timed_out"),
    )

    assert text == (
        "# harness session — codex\n\n"
        "---\n\n"
        "> **Tool done:** `shell` (c) [fail], exit code 3\n\n"
        "> **Tool done:** `shell` (d) [unknown]\n\n"
        "> **Error:** timed out\n> after 5 s\n> (timeout)\n\n"
        "> **Error:** again\n\n"
        "---\n\n"
        "**Result:** Error (timed out)\n"
    )


def test_output_with_fences_gets_a_longer_fence() -> None:
    text = shown("markdown", ToolEnd(call_id="c", tool_name="t", success=True, output="```py\n`````\n```"))

    assert "\n``````\n```py\n`````\n```\n``````\n" in text


def test_a_code_block_that_a_message_leaves_open_is_closed() -> None:
    text = shown("markdown", Message(role="assistant", text="see:\n~~~~sh\nls\n~~~"), Error(message="later"))

    assert text == "### Assistant\n\nsee:\n~~~~sh\nls\n~~~\n~~~~\n\n> **Error:** later\n"


def test_a_tool_name_cannot_break_out_of_its_code() -> None:
    text = shown("markdown", ToolStart(call_id="c", tool_name="a`b\n# c"))

    assert text == "> **Tool:** `` a`b # c `` (c)\n"


def test_sub_agents_are_quoted_and_named_as_deep_as_they_lie() -> None:
    text = shown(
        "markdown",
        SessionStart(agent="claude"),
        ToolStart(call_id="c1", tool_name="Task"),
        SessionStart(run_id="kid", parent_id="c1", name="Explore"),
        ToolStart(call_id="c2", tool_name="Task", run_id="kid"),
        SessionStart(run_id="grandkid", parent_id="c2", name="Deep"),
        Message(role="assistant", text="one\n\ntwo", run_id="grandkid"),
        Result(success=False, outcome="failed", run_id="kid"),
    )

    assert text.partition("---\n\n")[2] == (
        "> **Tool:** `Task` (c1)\n"
        "\n"
        "> **Sub-agent:** Explore\n"
        ">\n"
        "> > **Tool:** `Task` (c2)\n"
        ">\n"
        "> > **Sub-agent:** Deep\n"
        "> >\n"
        "> > ### Assistant\n"
        "> >\n"
        "> > one\n"
        "> >\n"
        "> > two\n"
        ">\n"
        "> **Sub-agent:** Explore\n"
        ">\n"
        "> **Result:** Error\n"
    )


def test_text_that_never_became_a_message_is_kept_and_retracted_text_is_not() -> None:
    text = shown(
        "markdown",
        TextDelta(id="a", text="gone"),
        TextRetracted(id="a"),
        TextDelta(id="b", text="half an ans"),
    )

    assert text == "### Assistant\n\nhalf an ans\n"


def test_escapes_are_shown_instead_of_obeyed() -> None:
    text = shown(
        "markdown",
        ToolEnd(call_id="\x1b[2J", tool_name="\x9b", success=True, output="\x1b]0;owned\x07"),
        ToolStart(call_id="c", tool_name="t", input={"k": "\x9b\u202e"}),
    )

    assert "␛]0;owned␇" in text
    assert not set(text) & set("\x1b\x9b\u202e\x07")
