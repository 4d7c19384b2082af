"""`harness sessions`: what was recorded can be listed, shown, proved and deleted, and nothing else touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli_machine import CLAUDE_LINES, CliMachine, wait_until
from harness.clients.sessions.ids import abbreviated, all_ids, table
from harness.contracts.history import Home
from harness.folds.inbox.row import InboxRow
from harness.histories.registry import load_all
from harness.log.store import Metadata
from harness.log.stores.files import FileStore

HOSTILE = [
    "../outside",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    " ",
    "*",
    "a\0b",
    "0192f3a4\n",
    "~",
    "-",
    "%2e%2e%2f",
    "0" * 5000,
    "01a1dec4-7ae1-71e1-af97-882761b6a421/../../outside",
    "01a1dec4-7ae1-71e1-af97-882761b6a421",
    "\udcff",
]


def _recorded(cli: CliMachine, count: int = 1) -> list[str]:
    cli.install("claude")
    for _ in range(count):
        assert cli.call("run", "-a", "claude", "-p", "look\x1b[31m at\nit").code == 0
    return [path.stem for path in reversed(cli.logs())]


def test_without_sessions_there_is_nothing_to_list(cli: CliMachine) -> None:
    answer = cli.call("sessions")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"there are no sessions in {cli.sessions}\n"
    assert cli.call("sessions", "list", "--json").data == []
    assert cli.call("sessions", "show", "last").code == 2


def test_the_list_shows_the_newest_first_on_one_line_each(cli: CliMachine) -> None:
    ids = _recorded(cli, 3)
    lines = cli.call("sessions", "list").out.strip().split("\n")
    assert [line.split()[0] for line in lines[1:]] == [abbreviated(one, ids) for one in ids]
    assert all("claude" in line and "succeeded" in line and "$0.043" in line for line in lines[1:])
    assert all(line.endswith("look␛[31m at it") for line in lines[1:])
    limited = cli.call("sessions", "--limit", "1")
    assert (len(limited.out.strip().split("\n")), limited.err) == (
        2,
        "… and 2 older ones (--limit 0 shows all)\n",
    )
    data = cli.call("sessions", "list", "--json").data
    assert [one["session_id"] for one in data] == ids
    assert data[0]["outcome"] == "completed"
    assert data[0]["running"] is False


def test_what_waits_for_a_person_is_listed_first(cli: CliMachine) -> None:
    store = FileStore(str(cli.sessions))
    for name, outcome in (("asked-a-question", "suspended"), ("asked-for-leave", "completed")):
        waiting = Metadata(session_id=name, kind="thread", outcome=outcome, activity="waiting")
        store.create(waiting).close()
    newer = [one for one in _recorded(cli, 2) if not one.startswith("asked")]
    listed = cli.call("sessions", "list", "--ids").out.split()
    assert (set(listed[:2]), listed[2:4]) == ({"asked-a-question", "asked-for-leave"}, newer)
    assert [one["outcome"] for one in cli.call("sessions", "list", "--json").data[:2]] == ["waiting"] * 2
    chosen = cli.call("sessions", "list", "--outcome", "waiting", "--ids").out.split()
    assert set(chosen) == set(listed[:2])


def test_on_a_terminal_a_long_task_is_cut_so_that_a_session_stays_one_line(cli: CliMachine) -> None:
    cli.install("claude")
    cli.call("run", "-p", "a task that goes on and on " * 5)
    store = FileStore(str(cli.sessions))
    (log_id,) = all_ids(store)
    for width in (80, 100):
        heading, line, _ = table([store.metadata(log_id)], [log_id], width).split("\n")
        assert heading.endswith("TASK")
        assert line.endswith("…")
        assert len(line) == width


def test_a_continued_conversation_has_its_time_and_cost_in_the_list() -> None:
    """The metadata of a conversation states neither: it was created, and its runs cost something."""
    conversation = Metadata(session_id="01a1e4ae-02c0-7d75-a43f-bd53decf417c", created_ms=1_794_837_971_732)
    row = InboxRow(id=conversation.session_id, cost_usd=0.25)
    shown = table([conversation], [conversation.session_id], 0, (), {conversation.session_id: row})
    assert " 2026-" in shown
    assert "$0.25" in shown


def test_a_session_is_found_by_any_beginning_that_means_only_one(cli: CliMachine) -> None:
    ids = _recorded(cli, 2)
    for text in (ids[0], abbreviated(ids[0], ids), ids[0].upper(), "last", f" {ids[0]} "):
        assert cli.call("sessions", "path", text).out == f"{cli.sessions / ids[0]}.ndjson\n"
    several = cli.call("sessions", "path", ids[0][:3])
    assert several.code == 2
    assert several.err.startswith("harness: 2 sessions begin with")


def test_abbreviations_are_short_and_unique() -> None:
    known = ["0192f3a4-5b6c-7d8e", "0192f3a4-5b6b-0000", "0192f3a4-0000-0000", "0100f3a4-0000-0000"]
    short = [abbreviated(one, known) for one in known]
    assert short == ["0192f3a4-5b6c", "0192f3a4-5b6b", "0192f3a4-0", "0100f3a4"]


@pytest.mark.parametrize("format", ["ndjson", "log", "text", "json", "markdown", "usage", "pretty"])
def test_a_session_is_shown_as_its_run_was(cli: CliMachine, format: str) -> None:
    cli.install("claude")
    live = cli.call("run", "-a", "claude", "-p", "x", "-f", format)
    assert cli.call("sessions", "show", "last", "-f", format).out == live.out
    assert cli.call("sessions", "replay", "last", "--fast", "-f", format).out == live.out


def test_the_file_of_a_session_can_be_found(cli: CliMachine) -> None:
    (one,) = _recorded(cli)
    raw = Path(cli.call("sessions", "path", one, "--raw").out.strip())
    assert CLAUDE_LINES[1] in raw.read_text()


def test_a_replay_keeps_its_timing_and_may_be_faster(cli: CliMachine) -> None:
    cli.install("claude", *CLAUDE_LINES[:2], after=f"sleep 0.6; cat <<'EOL'\n{CLAUDE_LINES[2]}\nEOL\n")
    cli.call("run", "-a", "claude", "-p", "x")
    took_s = {}
    for speed in ("1", "10"):
        begun_s = time.monotonic()
        assert cli.call("sessions", "replay", "last", "--speed", speed).types[-1] == "Result"
        took_s[speed] = time.monotonic() - begun_s
    assert took_s["1"] >= 0.6
    assert took_s["10"] < took_s["1"] - 0.3


def test_a_check_proves_a_log_and_shows_what_became_of_each_line(cli: CliMachine) -> None:
    _recorded(cli)
    answer = cli.call("sessions", "check", "last")
    assert (answer.code, answer.err) == (0, "")
    assert "3 lines" in answer.out
    assert "  1  system/init\n" in answer.out
    assert "proved" in answer.out
    data = cli.call("sessions", "check", "last", "--json").data
    assert (data["lines"], data["problems"], data["rules"]["result"]) == (3, [], 1)


def test_a_check_fails_when_the_log_was_changed(cli: CliMachine) -> None:
    _recorded(cli)
    (log,) = cli.logs()
    log.write_text(log.read_text().replace("I will look.", "I did nothing."))
    answer = cli.call("sessions", "check", "last")
    assert answer.code == 1
    assert "event 2 differs" in answer.err
    assert "proved" not in answer.out


def test_sessions_are_deleted_with_everything_that_belongs_to_them(cli: CliMachine) -> None:
    ids = _recorded(cli, 3)
    answer = cli.call("sessions", "delete", ids[0], ids[1], ids[0])
    assert (answer.code, answer.err) == (0, f"deleted {ids[0]}\ndeleted {ids[1]}\n")
    assert {path.name.split(".")[0] for path in cli.sessions.iterdir()} == {ids[2]}
    assert cli.call("sessions", "delete", ids[2], "nonsense").code == 2
    assert len(cli.logs()) == 1


def test_a_running_session_shows_it_can_be_followed_and_not_deleted(cli: CliMachine) -> None:
    rest = f"while [ ! -e go ]; do sleep 0.02; done; cat <<'EOL'\n{CLAUDE_LINES[2]}\nEOL\n"
    cli.install("claude", *CLAUDE_LINES[:2], after=rest)
    running = cli.spawn("run", "-a", "claude", "-p", "x")
    wait_until(lambda: cli.logs() and len(cli.log()) == 3)
    assert " running " in cli.call("sessions", "list").out
    assert cli.call("sessions", "list", "--json").data[0]["running"] is True
    assert cli.call("sessions", "show", "last").types == ["SessionStart", "Message", "Message"]
    locked = cli.call("sessions", "delete", "last")
    assert (locked.code, "is being written" in locked.err) == (1, True)
    follower = cli.spawn("sessions", "show", "last", "--follow")
    assert follower.stdout is not None
    assert b"SessionStart" in follower.stdout.readline()
    (cli.project / "go").touch()
    followed, _ = follower.communicate(timeout=100)
    live, _ = running.communicate(timeout=100)
    assert followed.split(b"\n") == live.split(b"\n")[1:]
    assert follower.returncode == 0


def test_a_session_whose_harness_was_killed_is_completed_when_it_is_shown(cli: CliMachine) -> None:
    cli.install("claude", *CLAUDE_LINES[:2], after="exec sleep 60")
    process = cli.spawn("run", "-a", "claude", "-p", "x")
    wait_until(lambda: cli.logs() and len(cli.log()) == 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: "lost" in cli.call("sessions", "list").out)
    assert cli.log()[-1]["type"] == "Result"
    assert cli.metadata()["outcome"] == "interrupted"
    assert cli.call("sessions", "check", "last").code == 0


def test_following_a_session_whose_harness_is_killed_ends_with_its_result(cli: CliMachine) -> None:
    cli.install("claude", *CLAUDE_LINES[:2], after="exec sleep 60")
    process = cli.spawn("run", "-a", "claude", "-p", "x")
    wait_until(lambda: cli.logs() and len(cli.log()) == 3)
    follower = cli.spawn("sessions", "show", "last", "--follow")
    assert follower.stdout is not None
    assert b"SessionStart" in follower.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    rest, _ = follower.communicate(timeout=100)
    last = json.loads(rest.strip().split(b"\n")[-1])
    assert (last["type"], last["success"]) == ("Result", False)


@pytest.mark.parametrize("action", ["show", "replay", "check", "path", "delete"])
def test_a_hostile_id_is_an_unknown_session(cli: CliMachine, action: str) -> None:
    _recorded(cli)
    (cli.sessions.parent / "outside.ndjson").write_text("secret")
    for text in HOSTILE:
        answer = cli.call("sessions", action, text)
        assert (answer.code, answer.out) == (2, ""), text
        assert answer.err.startswith("harness: "), text
        assert "secret" not in answer.err
    assert (cli.sessions.parent / "outside.ndjson").read_text() == "secret"
    assert len(cli.logs()) == 1


WATCHED = """
import os, sys
import harness
from harness.cli.main import main

seen = []
def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir", "os.truncate", "os.chmod"):
        seen.append((event, str(arguments[0])))

actions = ("show", "replay", "check", "path", "delete")
for action in actions:
    main(["sessions", action, "ffffffff"])
sys.addaudithook(hook)
for text in eval(sys.argv[1]):
    for action in actions:
        assert main(["sessions", action, text]) == 2, (action, text)
own = (*eval(sys.argv[2]), os.path.dirname(harness.__file__))
print([entry for entry in seen if not entry[1].startswith(own) and not entry[1].isdecimal()])
"""


def test_nothing_but_sessions_is_opened_for_a_hostile_id(cli: CliMachine) -> None:
    """Those of Harness and of agents, and the catalogue of these."""
    (one,) = _recorded(cli)
    places = [
        os.path.dirname(history.place(Home(str(cli.home), {}, (str(cli.project),)))) for history in load_all()
    ]
    allowed = [str(cli.sessions), str(cli.home / ".cache" / "harness"), *places]
    outside = cli.root / "outside.ndjson"
    outside.write_text('{"type":"Info","message":"secret"}\n')
    linked = "01a1dec4-7ae1-71e1-af97-882761b6a422"
    texts = [*HOSTILE, f"{one}/../{one}", f"{one}\0"]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, repr(texts), repr(allowed)],
        env=cli.environ, cwd=cli.project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    (cli.sessions / f"{linked}.ndjson").symlink_to(outside)
    for action in ("show", "replay", "check"):
        answer = cli.call("sessions", action, linked)
        assert (answer.code, answer.out) == (1, ""), action
        assert "secret" not in answer.err
    cli.call("sessions", "delete", linked)
    assert outside.exists()


def test_a_damaged_sidecar_costs_only_the_sidecar(cli: CliMachine) -> None:
    (one,) = _recorded(cli)
    (cli.sessions / f"{one}.meta.json").write_text("{")
    assert cli.call("sessions", "list").code == 0
    assert cli.call("sessions", "show", one).types[-1] == "Result"


def test_the_folder_of_sessions_may_lie_elsewhere(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.install("claude")
    monkeypatch.setenv("HARNESS_LOG_DIRECTORY", str(cli.root / "elsewhere"))
    cli.call("run", "-a", "claude", "-p", "x")
    assert all_ids(FileStore(str(cli.root / "elsewhere"))) != []
    assert not cli.sessions.exists()
    assert json.loads(cli.call("sessions", "list", "--json").out) != []


def _record(cli: CliMachine, agent: str, *words: str) -> None:
    cli.install("claude", *CLAUDE_LINES)
    cli.call("run", "-a", agent, "-p", "x", *words)


def _agents_listed(cli: CliMachine, *words: str) -> list[str]:
    answer = cli.call("sessions", "list", "--json", *words)
    assert answer.code == 0, answer.err
    return [row["agent_name"] for row in json.loads(answer.out)]


def test_a_list_can_be_narrowed(cli: CliMachine) -> None:
    _record(cli, "claude", "--tag", "fleet=x", "--tag", "b")
    _record(cli, "generic", "--binary", str(cli.script("nothing", "exit 3")))
    assert _agents_listed(cli) == ["generic", "claude"]
    assert _agents_listed(cli, "--tag", "fleet=x") == _agents_listed(cli, "-a", "claude") == ["claude"]
    assert _agents_listed(cli, "--tag", "fleet=x", "--tag", "other") == []
    assert _agents_listed(cli, "--outcome", "failed") == ["generic"]
    assert _agents_listed(cli, "--since", "1h", "--outcome", "completed") == ["claude"]
    assert _agents_listed(cli, "--until", "1h") == []


def test_a_list_that_is_cut_shows_it_also_to_programs(cli: CliMachine) -> None:
    for _ in range(3):
        _record(cli, "claude")
    answer = cli.call("sessions", "list", "--json", "--limit", "2", "-a", "claude")
    assert (len(json.loads(answer.out)), answer.err) == (2, "… and 1 older ones (--limit 0 shows all)\n")
    ids = cli.call("sessions", "list", "--ids").out.split()
    assert len(ids) == 3
    assert cli.call("sessions", "path", ids[0]).code == 0


@pytest.mark.parametrize(
    "words", [["--outcome", "good"], ["-a", "nobody"], ["--tag", ""], ["--since", "soon"]]
)
def test_a_filter_that_cannot_be_is_refused(cli: CliMachine, words: list[str]) -> None:
    answer = cli.call("sessions", "list", *words)
    assert (answer.code, answer.out) == (2, "")


def test_a_failed_run_shows_why_in_every_format(cli: CliMachine) -> None:
    _record(cli, "generic", "--binary", str(cli.script("nothing", "echo broken >&2; exit 3")))
    for name in ("text", "markdown", "json", "activity"):
        answer = cli.call("sessions", "show", "last", "--format", name)
        assert "exit code 3" in answer.out + answer.err, name


def test_what_another_version_recorded_and_read_otherwise_is_no_damage(cli: CliMachine) -> None:
    cli.install("codex")
    assert cli.call("run", "-a", "codex", "-p", "hi").code == 0
    (log,) = cli.logs()
    raw = log.with_suffix(".raw")
    head, rest = raw.read_bytes().split(b"\n", 1)
    start = json.loads(head)
    assert start.pop("recorder")
    log.write_bytes(log.read_bytes().replace(b'"exit_code":0', b'"exit_code":7'))
    damaged = cli.call("sessions", "check", log.stem)
    assert damaged.code == 1
    raw.write_bytes(json.dumps(start, separators=(",", ":")).encode() + b"\n" + rest)
    answer = cli.call("sessions", "check", log.stem)
    assert answer.code == 0
    assert "an earlier version of harness recorded this" in answer.err
    assert "proved" not in answer.out
    events = [json.loads(line) for line in log.read_text().splitlines()]
    beside = next(event for event in events if event["type"] == "UsageDelta")
    for name in [name for name in beside if name not in ("seq", "timestamp_ms", "run_id")]:
        del beside[name]
    beside |= {"type": "Warning", "message": "Said otherwise.", "code": "x"}
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert "nothing is missing" in cli.call("sessions", "check", log.stem).err
    log.write_bytes(b"\n".join(log.read_bytes().split(b"\n")[:-2]) + b"\n")  # an event is missing
    assert cli.call("sessions", "check", log.stem).code == 1


def test_many_sessions_are_deleted_by_age_agent_or_folder_but_only_after_a_yes(cli: CliMachine) -> None:
    ids = _recorded(cli, 3)
    old = time.time() - 40 * 86_400
    os.utime(cli.sessions / f"{ids[0]}.ndjson", (old, old))
    nobody = cli.call("sessions", "delete", "--all")
    assert (nobody.code, "--yes deletes these 3 sessions" in nobody.err) == (2, True)
    assert len(cli.logs()) == 3
    for words in ((), (ids[0], "--all"), ("--agent", "nonsense", "--yes")):
        assert cli.call("sessions", "delete", *words).code == 2
    assert "no such session" in cli.call("sessions", "delete", "--agent", "codex", "--yes").err
    assert "no such session" in cli.call("sessions", "delete", "--project", "/nowhere", "--yes").err
    aged = cli.call("sessions", "delete", "--older-than", "30d", "--yes")
    assert (aged.code, aged.err.startswith("deleted 1 sessions of ")) == (0, True)
    assert {path.name.split(".")[0] for path in cli.sessions.iterdir()} == set(ids[1:])
    assert cli.call("sessions", "delete", "-a", "claude", "--project", str(cli.project), "--yes").code == 0
    assert cli.logs() == []
