"""`harness chat`: at a real terminal and through pipes, with the agent of our own and a script in place of a model."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_machine import CliMachine, wait_until
from pty_terminal import TIMEOUT_S, PtyTerminal

pytest.importorskip("pty", reason="there are no terminals here")

GREETING = "/quit leaves"
ASKED = "or why not"


def bash(command: str) -> dict[str, Any]:
    return {"type": "tool_call", "name": "bash", "input": {"command": command}}


WAIT = bash("while [ ! -e go ]; do sleep 0.05; done")


def chat(cli: CliMachine, *answers: dict[str, Any] | str, permissions: str = "ask") -> tuple[str, ...]:
    script = cli.root / "script.json"
    events = [{"type": "text", "content": one} if isinstance(one, str) else one for one in answers]
    script.write_text(json.dumps({"responses": [{"events": [event]} for event in events]}))
    return ("chat", "-a", "native", "-m", f"scripted/{script}", "--permissions", permissions)


def through_pipe(cli: CliMachine, text: str, *words: str) -> tuple[int, str, str]:
    process = cli.spawn(*words, stdin=subprocess.PIPE)
    out, err = process.communicate(text.encode(), TIMEOUT_S)
    return process.returncode, out.decode(), err.decode()


def events(cli: CliMachine, kind: str) -> list[dict[str, Any]]:
    return [event for event in cli.log() if event["type"] == kind]


def test_lines_of_a_pipe_are_prompts_of_one_session(cli: CliMachine) -> None:
    code, out, err = through_pipe(cli, "hello\nand more\n/status\n/nope\n/quit\nnever\n", *chat(cli, "Hi."))
    assert (code, err) == (0, "")
    assert out.count("Hi.") == 2
    assert "❯ hello\n" in out
    assert "❯ and more\n" in out
    assert "permissions: ask\n" in out
    assert "unknown command: /nope; /help lists them" in out
    assert "\x1b" not in out
    assert [event["text"] for event in events(cli, "Message") if event["role"] == "user"] == [
        "hello",
        "and more",
    ]
    assert cli.metadata()["kind"] == "thread"
    assert "and more" in cli.call("sessions", "show", "last", "--format", "markdown").out


def test_the_next_line_of_a_pipe_answers_and_the_end_of_it_refuses(cli: CliMachine) -> None:
    words = chat(cli, bash("head -c0 /dev/null > made"), "Done.")
    code, out, _ = through_pipe(cli, "go\ny\n", *words)
    assert code == 0
    assert "? may it call bash: head -c0 /dev/null > made" in out
    assert f"  in {cli.project}" in out
    assert (cli.project / "made").exists()
    (cli.project / "made").unlink()
    code, out, _ = through_pipe(cli, "go\n", *chat(cli, bash("head -c0 /dev/null > made"), "Done."))
    assert code == 0
    assert "the input has ended" in out
    assert not (cli.project / "made").exists()


def test_a_conversation_is_summed_up_when_it_is_asked_for_and_before_it_is_too_long(cli: CliMachine) -> None:
    long = "word " * 3_000
    script = cli.root / "long.toml"
    script.write_text(f'turns = [{{ text = "{long}" }}, {{ text = "The goal is X." }}]')
    words = ("chat", "-a", "native", "-m", f"scripted/{script}", "--context-window", "16000")
    code, out, err = through_pipe(cli, "/compact\nhello\n/compact keep the goal\nand now?\n", *words)
    assert (code, err) == (0, "")
    assert "there is nothing to sum up yet" in out
    assert "context compacted" in out
    [event] = events(cli, "Compacted")
    assert (event["trigger"], event["summary"]) == ("manual", "The goal is X.")
    assert long[:100] in cli.call("sessions", "show", "last").out  # what was summed up stays in the log


def test_a_summary_is_shown_and_gone_back_from(cli: CliMachine) -> None:
    long = "word " * 3_000
    script = cli.root / "long.toml"
    script.write_text(f'turns = [{{ text = "{long}" }}, {{ text = "The goal is X." }}]')
    words = ("chat", "-a", "native", "-m", f"scripted/{script}", "--context-window", "16000")
    typed = "hello\n/compact show\n/compact undo\n/compact\n/compact show\n/compact undo\nand now?\n"
    code, out, err = through_pipe(cli, typed, *words)
    assert (code, err) == (0, "")
    assert "· nothing was summed up yet" in out
    assert "The goal is X.\n· all of it: harness sessions show " in out
    assert "· goes on with all that was said" in out
    older, newer = sorted(cli.sessions.glob("*.ndjson"))
    assert '"Compacted"' in older.read_text()
    assert '"Compacted"' not in newer.read_text()
    continued = cli.call("sessions", "show", newer.stem).out
    assert long[:100] in continued
    assert "and now?" in continued


def test_a_summary_that_messages_came_after_is_gone_back_from_by_turns(cli: CliMachine) -> None:
    script = cli.root / "long.toml"
    script.write_text(f'turns = [{{ text = "{"word " * 3_000}" }}, {{ text = "X." }}]\nrepeat_last = true')
    words = ("chat", "-a", "native", "-m", f"scripted/{script}", "--context-window", "16000")
    code, out, _ = through_pipe(cli, "hello\n/compact\nand now?\n/compact undo\n", *words)
    assert code == 0
    assert "there were messages since it was summed up" in out
    assert "/rewind TURN" in out


def test_nothing_typed_leaves_nothing_behind(cli: CliMachine) -> None:
    code, out, _ = through_pipe(cli, "/mode plan\n/permissions read-only\n/model\n/help\n", *chat(cli, "Hi."))
    assert code == 0
    assert "· mode plan\n· permissions read-only\nmodel: scripted/" in out
    assert cli.logs() == []


def test_a_failed_turn_is_the_exit_code_of_a_pipe(cli: CliMachine) -> None:
    code, out, _ = through_pipe(cli, "go\n", *chat(cli))
    assert code == 1
    assert "✗ " in out


def test_a_person_allows_denies_with_a_reason_and_allows_for_always(cli: CliMachine) -> None:
    first, other = bash("head -c0 /dev/null > a"), bash("head -c0 /dev/null > b")
    with PtyTerminal(cli, *chat(cli, first, other, first, "Done.")) as terminal:
        terminal.until(GREETING)
        terminal.type("go\r")
        terminal.until(ASKED)
        terminal.type("a\r")
        terminal.until(ASKED)
        terminal.type("not b\r")
        terminal.until("Done.")
        terminal.until("❯ ")
        terminal.type("yes\r")  # nothing is asked: it is sent to the agent
        terminal.until(ASKED)
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("interrupted")
        terminal.until("❯ ")
        terminal.type("/quit\r")
        terminal.until("continue: harness chat --resume ")
        assert terminal.wait() == 0
        assert terminal.settings == terminal.before
    replies = [(one["approved"], one.get("reason", "")) for one in events(cli, "RelayReply")]
    assert replies[:2] == [(True, ""), (False, "not b")]
    assert (cli.project / "a").exists()
    assert not (cli.project / "b").exists()


def test_what_is_typed_while_the_agent_works_is_given_to_it(cli: CliMachine) -> None:
    with PtyTerminal(cli, *chat(cli, WAIT, "Heard.", permissions="full-access")) as terminal:
        terminal.until(GREETING)
        terminal.type("go\r")
        terminal.until("$ while")
        terminal.type("/mode plan\r")
        terminal.until("a turn is in progress")
        terminal.type("also thiss\x7f\r")
        terminal.until("· sent to Harness agent")
        (cli.project / "go").touch()
        terminal.until("Heard.")
        terminal.until("completed")
        terminal.type("\x04")
        assert terminal.wait() == 0
    texts = [event["text"] for event in events(cli, "Message") if event["role"] == "user"]
    assert texts == ["go", "also this"]
    assert terminal.text.count("❯ also this") == 0


def test_ctrl_c_stops_the_turn_and_shows_at_the_prompt_how_to_leave(cli: CliMachine) -> None:
    with PtyTerminal(cli, *chat(cli, WAIT, "Never.", permissions="full-access")) as terminal:
        terminal.until(GREETING)
        terminal.type("go\r")
        terminal.until("$ while")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("· stopping")
        terminal.until("interrupted")
        terminal.until("❯ ")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("/quit or Ctrl-D leaves")
        terminal.type("half a line")
        terminal.until("half a line")
        terminal.process.send_signal(signal.SIGINT)
        terminal.type("/quit\r")
        assert terminal.wait() == 0
    assert [event["outcome"] for event in events(cli, "Result")] == ["interrupted"]


def test_a_question_waits_while_a_line_is_being_typed(cli: CliMachine) -> None:
    answers = (WAIT, bash("head -c0 /dev/null > made"), "Done.")
    with PtyTerminal(cli, *chat(cli, *answers)) as terminal:
        terminal.until(GREETING)
        terminal.type("go\r")
        terminal.until(ASKED)
        terminal.type("y\r")
        terminal.until("$ while")
        terminal.type("y")
        terminal.until("» y")
        (cli.project / "go").touch()
        terminal.type("es\r")  # sent to the agent, not to a question that was not shown
        terminal.until("may it call bash: head")
        terminal.until(ASKED)
        terminal.type("n\r")
        terminal.until("Done.")
        terminal.type("/quit\r")
        assert terminal.wait() == 0
    assert [one["approved"] for one in events(cli, "RelayReply")] == [True, False]


def test_a_dumb_terminal_gets_plain_lines(cli: CliMachine) -> None:
    hostile = "echo \x1b]0;owned\x07 \x1b[2J\u202e"
    with PtyTerminal(cli, *chat(cli, bash(hostile), "Done."), term="dumb") as terminal:
        terminal.until(GREETING)
        terminal.type("go\n")
        assert "␛]0;owned␇" in terminal.until(ASKED)
        terminal.type("n\n")
        terminal.until("Done.")
        terminal.until("completed")
        terminal.type("/quit\n")
        assert terminal.wait() == 0
        assert b"\x1b" not in terminal.raw


def test_a_hostile_question_cannot_draw(cli: CliMachine) -> None:
    hostile = "echo \x1b]0;owned\x07 \x1b[2J\u202e\n? may it call bash: ls\n  [y] Allow once"
    with PtyTerminal(cli, *chat(cli, bash(hostile), "Done.")) as terminal:
        terminal.until(GREETING)
        terminal.type("go\r")
        shown = terminal.until(ASKED)
        assert "␛]0;owned␇ ␛[2J<U+202E>" in shown
        assert "\n? may it call bash: ls" not in shown
        terminal.type("n\r")
        terminal.until("Done.")
        assert b"\x1b]" not in terminal.raw
        assert b"\x1b[2J" not in terminal.raw


def test_what_a_stopped_turn_has_not_taken_is_shown_where_it_is_sent(cli: CliMachine) -> None:
    fake = Path(__file__).parents[1] / "session/fake_claude.py"
    cli.script("claude", f'exec {shlex.quote(sys.executable)} {shlex.quote(str(fake))} "$@"')
    cli.environ |= {"FAKE_NOTES": str(cli.root / "notes"), "FAKE_VERSION": "2.1.325"}
    with PtyTerminal(cli, "chat", "-a", "claude", "--permissions", "full-access") as terminal:
        terminal.until(GREETING)
        terminal.type("stay deaf\r")
        notes = cli.root / "notes"
        wait_until(lambda: notes.exists() and "deaf" in notes.read_text())
        terminal.type("also this\r")
        terminal.until("· sent to Claude Code")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("· not taken in this turn, sent next: also this")
        terminal.until("❯ ")
        terminal.type("go on\r")
        shown_text = terminal.until("You said 'also this'.")
        assert "❯ also this" in shown_text
        terminal.until("❯ go on")
        terminal.until("You said 'go on'.")


def test_a_question_of_a_program_that_died_takes_no_answer(cli: CliMachine) -> None:
    """What is typed after the restart is a prompt, and not the answer to a question that nobody asks any more."""
    fake = Path(__file__).parents[1] / "session/fake_claude.py"
    cli.script("claude", f'exec {shlex.quote(sys.executable)} {shlex.quote(str(fake))} "$@"')
    cli.environ |= {"FAKE_NOTES": str(cli.root / "notes"), "FAKE_VERSION": "2.1.325"}
    words = ("chat", "-a", "claude", "--permissions", "ask")
    with PtyTerminal(cli, *words) as terminal:
        terminal.until(GREETING)
        terminal.type("run it\r")
        terminal.until(ASKED)
        terminal.process.kill()
        terminal.wait()
    code, out, err = through_pipe(cli, "go on\n", *words, "--resume", "last")
    assert (code, err) == (0, "")
    assert "no question with this id" not in out
    [reply] = events(cli, "RelayReply")
    assert (reply["approved"], reply["by"]) == (False, "policy")
    texts = [event["text"] for event in events(cli, "Message") if event["role"] == "user"]
    assert texts == ["run it", "go on"]
    assert out.index("run it") < out.index("go on")


def test_a_session_is_continued_with_the_messages(cli: CliMachine) -> None:
    words = chat(cli, "Hi.")
    assert through_pipe(cli, "first\n", *words)[0] == 0
    code, out, _ = through_pipe(cli, "second\n/resume\n", *words, "--resume", "last")
    assert code == 0
    assert "· continues " in out
    assert out.index("❯ first") < out.index("❯ second")
    texts = [event["text"] for event in events(cli, "Message") if event["role"] == "user"]
    assert texts == ["first", "second"]
    assert "TASK" in out
    unknown = through_pipe(cli, "", *words, "--resume", "nonexistent")
    assert unknown[0] == 2
    assert "unknown session" in unknown[2]


def test_of_a_long_text_that_is_pasted_the_beginning_stays_on_the_screen(cli: CliMachine) -> None:
    text = "".join(f"line {number}\n" for number in range(2_000))
    with PtyTerminal(cli, *chat(cli, "Hi.")) as terminal:
        terminal.until(GREETING)
        terminal.type(f"\x1b[200~{text}\x1b[201~")
        terminal.type("\r")
        shown = terminal.until(f"… ({len(text):,} characters)")
        assert len(shown) < 20_000
        terminal.until("Hi.")
        terminal.type("/quit\r")
        assert terminal.wait() == 0
    [said] = [event for event in events(cli, "Message") if event["role"] == "user"]
    assert said["text"] == text.strip()


def test_what_is_asked_for_holds_for_a_session_that_is_continued(cli: CliMachine) -> None:
    """It was left out without a word: `--permissions read-only` ran with the full access of before."""
    words = chat(cli, bash(": > first"), "Done.", bash(": > second"), "Done.", bash(": > third"), "Done.")
    code, out, err = through_pipe(cli, "one\n", *words[:-2], "--permissions", "full-access")
    assert (code, err) == (0, ""), out
    assert (cli.project / "first").exists(), out
    strict = ("--permissions", "read-only", "--max-turns", "7", "--append-system-prompt", "Be brief.")
    code, _, err = through_pipe(cli, "two\n", "chat", *strict, "--resume", "last")
    assert (code, err) == (0, "")
    assert not (cli.project / "second").exists()
    stored = cli.metadata()["settings"]
    assert (stored["permissionMode"], stored["maxTurns"]) == ("readOnly", 7)
    assert stored["appendSystemPrompt"] == "Be brief."
    code, _, err = through_pipe(cli, "three\n", "chat", "--resume", "last")  # it stays so
    assert (code, err) == (0, "")
    assert not (cli.project / "third").exists()
    elsewhere = through_pipe(cli, "four\n", "chat", "--cwd", str(cli.root), "--resume", "last")
    assert elsewhere[0] == 2
    assert "the folder of a conversation cannot change" in elsewhere[2]


def test_a_session_that_is_open_elsewhere_is_named_with_the_way_to_join_it(cli: CliMachine) -> None:
    with PtyTerminal(cli, *chat(cli, "Hi.")) as terminal:
        terminal.until(GREETING)
        terminal.type("one\r")
        terminal.until("Hi.")
        terminal.until("❯ ")
        code, _, err = through_pipe(cli, "two\n", "chat", "--resume", "last")
        assert code == 1
        assert "this session is open in another program" in err
        assert "`harness attach " in err
        terminal.type("/quit\r")
        assert terminal.wait() == 0


def test_a_prompt_of_the_command_line_is_shown_above_its_answer(cli: CliMachine) -> None:
    """What is typed stands there already."""
    assert through_pipe(cli, "one\n", *chat(cli, "Hi."))[0] == 0
    with PtyTerminal(cli, "resume", "last", "the second") as terminal:
        terminal.until("❯ the second\n\nHi.")
        terminal.until("❯ ")
        terminal.type("the third\r")
        assert terminal.until("Hi.").count("the third") == 1
        terminal.until("❯ ")
        terminal.type("/quit\r")
        assert terminal.wait() == 0


def test_a_session_that_is_continued_is_greeted_as_what_it_is(cli: CliMachine) -> None:
    words = chat(cli, "Hi.", permissions="accept-edits")
    assert through_pipe(cli, "one\n/mode plan\n", *words)[0] == 0
    with PtyTerminal(cli, "chat", "--resume", "last") as terminal:
        greeting = terminal.until(GREETING)
        assert f"· {words[4]} ·" in greeting
        assert "permissions: accept-edits" in greeting
        terminal.type("/mode\r")
        terminal.until("mode: plan")
        terminal.type("/quit\r")
        assert terminal.wait() == 0


@pytest.mark.parametrize(
    ("words", "shown_text"),
    [
        (["-a", "foobar"], "unknown agent: foobar"),
        (["--permissions", "foobar", "-a", "native", "-m", "scripted/demo"], "unknown permissions: foobar"),
        (["-a", "native", "-m", "scripted/demo", "--cwd", "/nonexistent"], "no such directory"),
        (["-a", "native", "-m", "scripted/demo", "--mode", "x"], "unknown mode: x"),
    ],
)
def test_what_cannot_be_is_reported_before_anything_is_asked(
    cli: CliMachine, words: list[str], shown_text: str
) -> None:
    answer = cli.call("chat", *words)
    assert answer.code == 2
    assert shown_text in answer.err
    assert cli.logs() == []


def test_a_turn_is_taken_back_and_brought_again(cli: CliMachine) -> None:
    (cli.project / "kept").write_text("kept\n")
    words = chat(cli, bash("echo made > made; echo more >> kept"), "Done.", permissions="full-access")
    text = "go\n/undo yes\n/undo 7\n/undo\n/undo yes\n/redo\n/undo\n/undo yes\n/quit\n"
    code, out, err = through_pipe(cli, text, *words)
    assert (code, err) == (0, "")
    assert "nothing was shown that could be taken back" in out
    assert "turn 7: there is one" in out
    assert "· /undo yes takes these back" in out
    assert "· Taken back: 2 files." in out
    assert "· Brought back: 2 files." in out
    assert not (cli.project / "made").exists()
    assert (cli.project / "kept").read_text() == "kept\n"


def test_a_command_in_the_background_lives_from_message_to_message(cli: CliMachine) -> None:
    begin = {
        "tool": "bash",
        "input": {"command": "echo $$ > pid; while true; do echo tick; sleep 0.1; done", "background": True},
    }
    look = {"tool": "bash_output", "input": {"id": "b1", "wait": 5}}
    turns = [
        begin,
        {"text": "It runs."},
        look,
        {"tool": "bash_output", "input": {}},
        {"text": "It still runs."},
    ]
    script = cli.root / "background.json"
    script.write_text(json.dumps({"turns": turns}))
    words = ("chat", "-a", "native", "-m", f"scripted/{script}", "--permissions", "full-access")
    code, out, err = through_pipe(cli, "begin\nand now?\n/status\n", *words)
    assert (code, err) == (0, "")
    outputs = [event["output"] for event in events(cli, "ToolEnd")]
    assert "b1 is running in the background" in outputs[0]
    assert "b1 is still running" in outputs[1]
    assert "tick" in outputs[1]
    assert "b1 is still running: echo $$ > pid; while true" in outputs[2]
    assert "It still runs." in out
    assert "running:     b1 echo $$ > pid; while true" in out
    with pytest.raises(ProcessLookupError):  # it has ended with the conversation
        os.kill(int((cli.project / "pid").read_text()), 0)


def test_files_go_with_the_next_prompt_alone(cli: CliMachine) -> None:
    (cli.root / "notes.txt").write_text("The whale is blue.")
    (cli.root / "more.txt").write_text("The fox is red.")
    words = (*chat(cli, "Hi.", "Yes."), "--attach", str(cli.root / "notes.txt"))
    text = f"/attach {cli.root / 'more.txt'}\n/attach /nowhere\nhello\nand now\n/quit\n"
    code, out, _err = through_pipe(cli, text, *words)
    assert code == 0
    assert "with the next prompt: notes.txt, more.txt" in out
    assert "cannot attach '/nowhere': No such file or directory" in out
    said = [event for event in events(cli, "Message") if event["role"] == "user"]
    assert [[part["name"] for part in one.get("parts") or [] if part["type"] == "file"] for one in said] == [
        ["notes.txt", "more.txt"],
        [],
    ]


def test_going_back_offers_the_files_too(cli: CliMachine) -> None:
    script = cli.root / "script.json"
    writes = [
        {"tool": "write", "input": {"filePath": f"{name}.txt", "content": "new\n"}} for name in ("one", "two")
    ]
    turns = [[writes[0]], [{"text": "First."}], [writes[1]], [{"text": "Second."}]]
    script.write_text(json.dumps({"turns": turns}))
    words = ("chat", "-a", "native", "-m", f"scripted/{script}", "--permissions", "full-access")
    words = (*words, "-d", str(cli.project))
    text = "make one\nmake two\n/rewind\n/rewind 9\n/rewind 2\n/undo yes\n/quit\n"
    code, out, _err = through_pipe(cli, text, *words)
    assert code == 0
    assert "   1  make one\n" in out
    assert "there is no turn 9; there are 1 to 2" in out
    assert "goes on from before: make two" in out
    assert "/undo yes takes these back" in out
    assert (cli.project / "one.txt").exists()
    assert not (cli.project / "two.txt").exists()
    assert len(cli.logs()) == 2
    forks = [json.loads(path.read_text()).get("fork") for path in sorted(cli.sessions.glob("*.meta.json"))]
    assert [bool(fork) for fork in forks] == [False, True]


def permissions_of_all(cli: CliMachine) -> list[str]:
    metadata = [json.loads(path.read_text()) for path in sorted(cli.sessions.glob("*.meta.json"))]
    return [one["settings"]["permissionMode"] for one in metadata]


def test_a_new_conversation_begins_with_the_rights_of_now_and_none_of_the_messages(cli: CliMachine) -> None:
    words = (*chat(cli, bash("echo x >> made"), "Done.", permissions="full-access"), "-d", str(cli.project))
    text = "/clear\none\n/permissions read-only\n/clear\n/status\ntwo\n/new\n/quit\n"
    code, out, _err = through_pipe(cli, text, *words)
    assert code == 0
    assert "this conversation is new" in out
    assert out.count("· a new conversation; back to the one before: /resume ") == 2
    assert "session:     none yet" in out
    first, second = (path.read_text() for path in sorted(cli.sessions.glob("*.ndjson")))
    assert '"one"' in first
    assert '"one"' not in second
    assert permissions_of_all(cli) == ["readOnly", "readOnly"]
    assert (cli.project / "made").read_text() == "x\n"


def test_going_back_keeps_to_the_rights_of_now(cli: CliMachine) -> None:
    """Not to those that the chat was started with."""
    words = (*chat(cli, bash("echo x >> made"), "Done.", permissions="full-access"), "-d", str(cli.project))
    code, _out, _err = through_pipe(cli, "one\n/permissions read-only\n/rewind 1\ntwo\n", *words)
    assert code == 0
    assert permissions_of_all(cli) == ["readOnly", "readOnly"]
    assert (cli.project / "made").read_text() == "x\n"


def test_of_a_conversation_that_was_summed_up_the_last_exchange_is_shown(cli: CliMachine) -> None:
    script = cli.root / "long.toml"
    script.write_text(f'turns = [{{ text = "Old." }}, {{ text = "{"word " * 3_000}" }}, {{ text = "X." }}]')
    words = ("chat", "-a", "native", "-m", f"scripted/{script}", "--context-window", "16000")
    assert through_pipe(cli, "before\nhello there\n/compact\n", *words)[0] == 0
    code, out, _err = through_pipe(cli, "/quit\n", "chat", "--resume", "last")
    assert code == 0
    assert "hello there" in out
    assert "word word" in out
    assert "context compacted" in out
    assert "Old." not in out


def test_the_servers_of_a_conversation_are_shown_and_cannot_draw(cli: CliMachine) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed: pip install mcp")
    server = Path(__file__).parents[1] / "native/tools/mcp_server.py"
    servers = {
        "shop": {"command": sys.executable, "args": [str(server)]},
        "gone": {"command": "/nonexistent/\x1b[31mserver"},
    }
    file = cli.root / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    words = (*chat(cli, "Hi."), "--mcp", str(file))
    code, out, _err = through_pipe(cli, "/mcp\nhello\n/mcp\n/clear\n", *words)
    assert code == 0
    assert "the servers start with the first prompt" in out
    assert "shop: connected · shop__add, " in out
    assert "gone: failed · " in out
    assert "\x1b" not in out
    assert "there are no MCP servers" in through_pipe(cli, "hello\n/mcp\n", *chat(cli, "Hi."))[1]
