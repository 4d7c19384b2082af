"""Which calls of an agent program run unasked: decided by the question itself, and in doubt by a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conversations import (
    ANSWER,
    INIT,
    VERSION,
    Step,
    Talk,
    allowing,
    ask,
    call,
    called,
    done,
    first_turn,
    out,
    relays,
    replies,
    result_of,
)
from harness.contracts.request import Permissions, Request
from harness.errors import UsageError
from harness.events import Error, Event, Relay, RelayReply
from harness.runs import dialogue, launch
from surroundings import use_programs_of_the_system


@pytest.fixture(autouse=True)
def known_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "probe_version", lambda binary, args: VERSION)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def announced(call_id: str, tool: str, **given: Any) -> Step:
    step = call(call_id, tool=tool)
    step["msg"]["message"]["content"][0]["input"] = given
    return step


def denied(talk: Talk, *steps: Step, **request: Any) -> list[Event]:
    """What happens where a person refuses everything."""
    run = talk.start(talk.program(*first_turn(*steps)), **request)
    return talk.follow(run, allowing(run, approved=False))


LINES = [
    "./tools/cat x",
    "bin/cat x",
    "PATH=./tools:$PATH cat x",
    "LD_PRELOAD=./x.so cat x",
    "BASH_ENV=./e.sh bash -c 'cat x'",
    "env -S 'cat x'",
    "cat \"${x#'\"'}\" ; touch P # '",
    "cat x > /dev/tcp/127.0.0.1/9",
    "sed -n 1p a -i",
    "find . -exec ./e +",
    "git status",
    "cat ~/.ssh/id_rsa",
    "cat a\ntouch P",
]


@pytest.mark.parametrize("line", LINES)
def test_a_command_that_looks_like_reading_is_asked_about(talk: Talk, line: str) -> None:
    events = denied(talk, *called("c1", line), ANSWER)

    assert replies(events) == [(False, "person")]


@pytest.mark.parametrize("line", [*LINES, "ls", "cat notes.md"])
def test_no_command_runs_where_a_run_may_only_read(talk: Talk, line: str) -> None:
    events = denied(talk, *called("c1", line), ANSWER, permissions="read-only")

    assert replies(events) == [(False, "policy")]


def test_a_command_that_is_proved_to_read_is_not_asked_about(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_programs_of_the_system(monkeypatch)
    assert replies(denied(talk, *called("c1", "ls -la"), ANSWER)) == [(True, "policy")]


@pytest.mark.parametrize(
    "tool", ["Skill", "Agent", "SendMessage", "SlashCommand", "Unheard", "mcp__files__read"]
)
def test_what_may_do_anything_is_asked_about(talk: Talk, tool: str) -> None:
    given = {"path": "notes.md"}
    events = denied(talk, announced("c1", tool, **given), ask("c1", tool=tool, input=given), ANSWER)

    assert replies(events) == [(False, "person")]


def test_a_question_is_not_judged_by_the_call_that_was_announced_under_its_id(talk: Talk) -> None:
    reads = announced("c1", "Read", file_path="notes.md")
    events = denied(talk, reads, ask("c1", "touch x"), ANSWER)

    assert replies(events) == [(False, "person")]
    assert "announced another call" in relays(events)[0].why
    assert relays(events)[0].input == {"command": "touch x"}


def test_a_call_whose_arguments_were_changed_is_asked_about(talk: Talk) -> None:
    events = denied(talk, call("c1", "ls -a"), ask("c1", "ls"), ANSWER)

    assert "announced another call" in relays(events)[0].why


def test_an_id_that_is_used_twice_is_asked_about(talk: Talk) -> None:
    steps = [announced("c1", "Read", file_path="notes.md"), announced("c1", "Bash", command="ls")]
    events = denied(talk, *steps, ask("c1", "ls"), ANSWER)

    assert "one id for two calls" in relays(events)[0].why


def test_what_was_withdrawn_and_comes_again_otherwise_is_asked_about(talk: Talk) -> None:
    withdrawn = out({"type": "control_cancel_request", "request_id": "q-c1"})
    run = talk.start(talk.program(*first_turn(ask("c1", "make"), withdrawn, ask("c1", "ls"), ANSWER)))

    def answer(
        event: Event,
    ) -> None:  # only what is asked again: an answer to the first could come before its end
        if isinstance(event, Relay) and "with other arguments" in event.why:
            run.reply(event.id, approved=False)

    assert "with other arguments" in relays(talk.follow(run, answer))[-1].why


def test_a_question_says_what_it_is_for_and_why_it_is_asked(talk: Talk) -> None:
    [relay] = relays(denied(talk, *called("c1", "make"), ANSWER))

    assert relay.calls is not None
    [only] = relay.calls
    assert (only.tool, only.input, only.category) == ("Bash", {"command": "make"}, "execute")
    assert relay.why == only.why != ""


def test_always_that_is_not_offered_is_no_answer(talk: Talk) -> None:
    given = {"command": "make", "token": "x"}
    run = talk.start(
        talk.program(*first_turn(announced("c1", "Unheard", **given), ask("c1", tool="Unheard"), ANSWER))
    )

    def answer(event: Event) -> None:
        if isinstance(event, Relay):
            with pytest.raises(UsageError, match="for always"):
                run.reply(event.id, approved=True, always=True)
            assert run.reply(event.id, approved=True)

    assert replies(talk.follow(run, answer)) == [(True, "person")]


@pytest.mark.parametrize("line", ["mkdir -p logs && echo x >> logs/a.log", "npm test > log.txt"])
def test_always_holds_for_the_same_line_whatever_the_model_says_of_it(talk: Talk, line: str) -> None:
    steps = []
    for number, words in enumerate(("Make it.", "Once more.")):
        given = {"command": line, "description": words}
        name = f"c{number}"
        steps += [announced(name, "Bash", **given), ask(name, input=given), ANSWER, done(name)]
    run = talk.start(talk.program(*first_turn(*steps)))

    assert replies(talk.follow(run, allowing(run, always=True))) == [(True, "person"), (True, "policy")]


def reading(path: str) -> list[Any]:
    reads = {"dir": "out", "msg": {**call("c1", tool="Read")["msg"]}}
    reads["msg"]["message"]["content"][0]["input"] = {"file_path": path}
    return [reads, ask("c1", tool="Read", input={"file_path": path}), ANSWER]


def test_nobody_is_asked_about_what_only_reads_below_the_folder(talk: Talk) -> None:
    run = talk.start(talk.program(*first_turn(*reading("notes.md"))))

    assert replies(talk.follow(run)) == [(True, "policy")]


@pytest.mark.parametrize("path", ["/etc/hosts", "../x", "~/.ssh/id_rsa", "/proc/self/environ"])
def test_reading_elsewhere_is_asked_about(talk: Talk, path: str) -> None:
    run = talk.start(talk.program(*first_turn(*reading(path))))
    events = talk.follow(run, allowing(run, approved=False))

    assert replies(events) == [(False, "person")]
    assert "outside" in relays(events)[0].why


def test_a_program_that_is_refused_again_and_again_is_ended(talk: Talk) -> None:
    steps = [step for number in range(200) for step in (*called(f"c{number}", f"touch {number}"), ANSWER)]
    run = talk.start(talk.program(*first_turn(*steps)), on_ask="deny")
    events = talk.follow(run)

    assert len(replies(events)) < 60
    assert [event.code for event in events if isinstance(event, Error)] == ["refused_too_often"]
    assert result_of(events).outcome == "failed"


def test_a_program_that_is_allowed_something_between_its_refusals_is_ended_too(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "MOST_REFUSALS_IN_ALL", 20)
    use_programs_of_the_system(monkeypatch)
    lines = [line for number in range(100) for line in (f"touch {number}", "ls")]
    steps = [step for number, line in enumerate(lines) for step in (*called(f"c{number}", line), ANSWER)]
    run = talk.start(talk.program(*first_turn(*steps)), on_ask="deny")
    events = talk.follow(run)

    assert [is_allowed for is_allowed, _ in replies(events)].count(False) == 20
    assert [event.code for event in events if isinstance(event, Error)] == ["refused_too_often"]


def test_a_program_that_turns_out_to_be_a_version_that_does_not_ask_is_ended(talk: Talk) -> None:
    """A shim says one version, and starts the one that the settings of the folder name."""
    older = out(INIT["msg"] | {"claude_code_version": "2.0.60"})
    steps = [step if step is not INIT else older for step in first_turn(*called("c1"), ANSWER)]
    run = talk.start(talk.program(*steps))
    events = talk.follow(run, allowing(run))

    assert [event.code for event in events if isinstance(event, Error)] == ["cannot_be_held"]
    assert result_of(events).outcome == "failed"
    assert replies(events) == []


def test_a_rule_of_the_user_holds_in_full_access_and_all_else_is_allowed(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/harness").mkdir(parents=True)
    rule = '[[permissions.rules]]\nanswer = "deny"\ncommand = "git push"\nreason = "not from here"\n'
    (tmp_path / "config/harness/config.toml").write_text(rule)
    steps = (ask("c1", "cd x && git push"), ask("c2", "make"), ANSWER)
    events = denied(talk, *steps, permissions="full-access")
    answers = [event for event in events if isinstance(event, RelayReply)]
    assert [(answer.approved, answer.by) for answer in answers] == [(False, "policy"), (True, "policy")]
    assert answers[0].reason == "not from here"
    assert relays(events) == []


def test_an_agent_that_cannot_be_asked_is_not_started_under_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/harness").mkdir(parents=True)
    rule = '[[permissions.rules]]\nanswer = "deny"\ncommand = "git push"\n'
    (tmp_path / "config/harness/config.toml").write_text(rule)
    with pytest.raises(UsageError, match="cannot be held to your rules"):
        launch.prepare(Request(agent="aider", prompt="x", cwd=str(tmp_path)))


@pytest.mark.parametrize("agent", ["gemini", "copilot", "droid"])
@pytest.mark.parametrize("permissions", ["ask", "full-access", "read-only"])
def test_an_agent_that_reads_without_asking_is_not_started_under_a_rule_about_reading(
    agent: str, permissions: Permissions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/harness").mkdir(parents=True)
    settings = tmp_path / "config/harness/config.toml"
    request = Request(agent=agent, prompt="x", cwd=str(tmp_path), permissions=permissions)
    for rule in ('path = ".env"', 'category = "read"', 'tool = "*"'):
        settings.write_text(f'[[permissions.rules]]\nanswer = "deny"\n{rule}\n')
        with pytest.raises(UsageError, match="reads files below its folder without asking"):
            launch.prepare(request)
    for rule in (
        'command = "git push"',
        'category = "edit"\npath = ".env"',
        'path = ".env"\nagent = "claude"',
    ):
        settings.write_text(f'[[permissions.rules]]\nanswer = "deny"\n{rule}\n')
        assert "reads files" not in _problem_with(request)


def test_a_program_that_is_held_to_rules_is_started_so_that_it_asks(tmp_path: Path) -> None:
    request = Request(agent="claude", prompt="x", cwd=str(tmp_path), is_held_to_rules=True)
    made = launch.prepare(request)
    assert (made.request.permissions, made.access) == ("ask", "full-access")
    assert launch.prepare(replace(request, is_held_to_rules=False)).request.permissions == "full-access"
    with pytest.raises(UsageError, match="cannot be held to the rules of its session"):
        launch.prepare(replace(request, agent="aider"))


def _problem_with(request: Request) -> str:
    try:
        launch.prepare(request)
    except UsageError as error:
        return error.message
    return ""


def test_always_is_not_offered_where_a_rule_asks_all_the_same(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/harness").mkdir(parents=True)
    rule = '[[permissions.rules]]\nanswer = "ask"\ncommand = "npm publish"\n'
    (tmp_path / "config/harness/config.toml").write_text(rule)
    for command, offers in (("npm publish", False), ("npm install x", True)):
        [relay] = relays(denied(talk, *called("a1", command), ANSWER))
        assert any(choice.kind == "allow-always" for choice in relay.choices or ()) is offers
