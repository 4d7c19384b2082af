"""What a command leaves to the next one: its directory and its variables, and nothing that anybody did not decide about."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import Any

import pytest
from msgspec.structs import replace

from harness.approvals.call import ASK
from harness.approvals.decide import decide
from harness.approvals.free_commands import free_programs
from harness.approvals.rules import Rule
from harness.approvals.work_folder import WorkFolder
from harness.contracts.model import Call
from harness.contracts.tool import ToolOutput
from harness.events.operation import List, Search
from harness.native.loop.resources import Resources
from harness.native.tools.bash import BashTool
from harness.native.tools.kept_shell import KeptShell, ShellEnd
from harness.native.tools.spellings import in_our_words
from harness.questions.permissions import proposed_call
from tool_kit import Bench, ToolFailure

pytestmark = pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="no bash: nothing is kept")


class Conversation:
    """Calls as a run makes them, one after the other."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.tool = BashTool(bench.workspace, bench.outputs)
        self.resources = Resources()

    def words(self, question: Any = None, **arguments: Any) -> dict[str, Any]:
        call = Call("c", "bash", arguments)
        words: dict[str, Any] = in_our_words(call, {"bash": self.tool}, self.resources.get, question).input
        return words

    def call(self, command: str, **more: Any) -> ToolOutput:
        return self.run(self.words(command=command, **more))

    def run(self, words: dict[str, Any]) -> ToolOutput:
        context = self.bench.context(on_resource=self.resources.get)
        return asyncio.run(self.tool.run(words, context))

    def text(self, command: str, **more: Any) -> str:
        return self.call(command, **more).text.removeprefix("stdout:\n").removesuffix("\nexit code: 0")


@pytest.fixture
def talk(bench: Bench) -> Conversation:
    bench.write("sub/inner/a.txt", "x\n")
    return Conversation(bench)


def test_the_directory_and_the_exported_variables_last(talk: Conversation) -> None:
    root = os.path.realpath(talk.bench.root)
    moved = talk.call("cd sub && export GREETING='two words' PLAIN=1; unset UNKNOWN")
    assert moved.text == f"[the next command begins in {root}/sub]\nexit code: 0"
    assert talk.text('pwd; echo "$GREETING"') == f"{root}/sub\ntwo words"
    assert talk.call("cd inner; false").exit_code == 1
    assert talk.text("pwd; unset GREETING") == f"{root}/sub/inner"
    assert talk.text("echo ${GREETING-none} $PLAIN") == "none 1"
    assert talk.text("cd ../..").startswith("[the next command begins in")
    assert talk.text("pwd") == str(root)


@pytest.mark.parametrize("name", ["npm_config_@a:b", "A.B", "BASH_FUNC_x%%", os.fsdecode(b"ODD\xe9")])
def test_a_variable_that_no_shell_could_name_was_not_changed(talk: Conversation, name: str) -> None:
    talk.bench.env[name] = "() { true; }"
    talk.call("true")
    assert "environment" not in talk.words(command="make")
    talk.call("export OTHER=1")
    assert talk.words(command="make")["environment"].startswith("OTHER (")


@pytest.mark.parametrize("name", ["PS1", "PS2", "SHELLOPTS"])
def test_what_the_shell_itself_drops_or_sets_was_not_changed(talk: Conversation, name: str) -> None:
    talk.bench.env[name] = "braceexpand" if name == "SHELLOPTS" else "$ "
    talk.call("set -o pipefail")
    assert "environment" not in talk.words(command="make")


def test_what_was_given_and_is_unset_stays_unset(talk: Conversation) -> None:
    talk.bench.env["GIVEN"] = "yes"
    talk.call("unset GIVEN")
    assert talk.text("echo ${GIVEN-none}") == "none"
    talk.call("export GIVEN=yes")
    assert talk.resources.get(KeptShell).environment == ""


def test_a_folder_of_one_call_is_left_with_it(talk: Conversation) -> None:
    root = os.path.realpath(talk.bench.root)
    assert talk.text("pwd", workdir="sub") == f"{root}/sub"
    assert talk.text("pwd", cwd=str(talk.bench.root / "sub")) == f"{root}/sub"
    assert talk.text("pwd") == str(root)
    talk.call("cd sub")
    assert talk.text("pwd", workdir=".") == str(root)
    assert talk.text("pwd") == f"{root}/sub"


def test_a_folder_outside_or_gone_is_not_gone_on_in(talk: Conversation) -> None:
    root = os.path.realpath(talk.bench.root)
    assert "is outside of the workspace: the next command begins in" in talk.call("cd /; true").text
    assert talk.text("pwd") == str(root)
    os.symlink("/", talk.bench.root / "sub/away")
    assert "is outside of the workspace" in talk.call("cd sub/away").text
    talk.call("cd sub/inner")
    talk.call("rm -r ../inner")
    assert talk.text("pwd") == str(root)


@pytest.mark.parametrize(
    "command",
    [
        "cd sub; exec true",
        "cd sub; trap 'echo bye' EXIT",
        "(cd sub)",
        "cd sub; kill -9 $$",
        "cd sub; export PATH=/nowhere",
        "cd sub; sleep 60",
        "cd sub; ) ",
    ],
)
def test_a_shell_that_tells_nothing_changes_nothing(talk: Conversation, command: str) -> None:
    talk.call("export A=1; cd sub")
    talk.call("cd ..")
    talk.call(command, timeout=1 if "sleep" in command else 60)
    assert talk.text("pwd; echo $A") == f"{os.path.realpath(talk.bench.root)}\n1"


def test_functions_options_and_aliases_are_not_kept(talk: Conversation) -> None:
    talk.call("git() { echo mine; }; export -f git; set -e; shopt -s expand_aliases; alias l=ls; X=1")
    assert talk.text("type -t git || echo none; echo ${X-none}; false; echo on").splitlines()[-2:] == [
        "none",
        "on",
    ]


@pytest.mark.parametrize(
    "command",
    [
        "echo out; echo err >&2; exit 3",
        "printf 'a\\0b' >&2",
        "\n\nnope",
        "echo 'x",
        "echo )",
        "cat <<'E'\n'\"\\ $HOME\nE",
        "echo $0 $# $LINENO\necho $LINENO",
        "set -x; echo traced",
        "exec 2>&1; echo x >&2",
        "exec 9>lock; echo locked >&9; cat lock",
        "printf '%s\\n' ü \\\\ \"'\"; # the end",
    ],
)
def test_a_command_says_what_it_says_without_that(talk: Conversation, command: str) -> None:
    shell = ["/bin/bash", "-c"]
    here = {"cwd": talk.bench.root, "env": {**talk.bench.env, "LC_ALL": "C"}}
    plain = subprocess.run([*shell, command], **here, check=False, capture_output=True)  # type: ignore[call-overload]
    end = ShellEnd()
    kept = subprocess.run([*shell, end.script(command)], **here, check=False, capture_output=True)  # type: ignore[call-overload]
    errors = b"".join(end.output("stderr", bytes([byte])) for byte in kept.stderr) + end.rest()
    assert (kept.returncode, kept.stdout) == (plain.returncode, plain.stdout)
    assert errors.replace(b"eval:", b"-c:").replace(b"++ ", b"+ ") == plain.stderr
    state = end.state()
    assert state is not None
    assert state.cwd == os.path.realpath(talk.bench.root)


def test_what_others_write_in_between_is_no_state() -> None:
    end = ShellEnd()
    env = {"A": "1" * 100}
    told = subprocess.run(
        ["/bin/bash", "-c", end.script("true")], check=False, capture_output=True, env=env
    ).stderr
    end.output("stderr", told[:-60] + b"a server says hello\n" + told[-60:])
    assert end.state() is None


def test_a_call_says_where_it_runs_and_which_variables_hold(talk: Conversation) -> None:
    talk.call("cd sub; export SECRET=hunter2")
    words = talk.words(command="make")
    assert words["workdir"] == "sub"
    assert words["environment"].startswith("SECRET (")
    assert "hunter2" not in repr(words)
    permission = talk.tool.permission(words)
    assert permission.params is not None
    assert permission.params.keys() == {"command", "workdir", "environment"}
    talk.call("export SECRET=other")
    assert talk.words(command="make")["environment"] != words["environment"]
    assert "environment" not in Conversation(talk.bench).words(command="ls", environment="PATH (0)")


def test_what_only_looks_runs_without_the_variables_and_leaves_them(talk: Conversation) -> None:
    """Else each `ls` would be asked about as soon as an environment of Python is active."""
    talk.bench.write("tools/ls", "#!/bin/sh\necho not yours\n")
    (talk.bench.root / "tools/ls").chmod(0o755)
    talk.call("export PATH=$PWD/tools:$PATH KEPT=1")
    for line in ("ls sub", "cd sub && ls inner", "grep -c x sub/inner/a.txt | head -1"):
        assert "environment" not in talk.words(command=line)
        assert "not yours" not in talk.text(line)
    talk.call("cd ..")
    for line in ("echo $KEPT", "which ls", "ls > a", "ls; make", "KEPT=2 ls", "ls $(cat a)", "python3 -V"):
        assert talk.words(command=line)["environment"].startswith("KEPT PATH (")
    assert talk.text("echo $KEPT; ls") == "1\nnot yours"


def test_what_was_allowed_is_asked_about_again_with_other_variables_or_elsewhere(talk: Conversation) -> None:
    folder = WorkFolder(
        root=os.path.realpath(talk.bench.root), programs=free_programs({"PATH": "/usr/bin:/bin"})
    )
    rules = [
        Rule(answer="allow", source="user", tool="bash", params={"command": "make *"}),
        Rule(answer="allow", source="user", tool="bash", command="make test"),
    ]

    def answer(words: dict[str, Any], rule: Rule) -> str:
        return decide([proposed_call("bash", words, talk.tool.operations(words))], ASK, [rule], folder).answer

    line = {"command": "make test"}
    for rule in rules:
        assert answer(talk.words(**line), rule) == "allow"
        assert answer(talk.words(**line, workdir="sub"), rule) == "allow"
        assert answer(talk.words(**line, workdir="/"), rule) == "ask"
    assert decide([proposed_call("bash", line, talk.tool.operations(line))], ASK, [], folder).answer == "ask"
    assert answer(talk.words(command="ls"), rules[0]) == "allow"
    talk.call("export PATH=$PWD/sub:$PATH")
    assert [answer(talk.words(**line), rule) for rule in rules] == ["ask", "ask"]
    with_path = talk.words(**line)["environment"]
    assert answer({"command": "ls", "environment": with_path}, rules[0]) == "ask"
    assert answer(talk.words(command="ls"), rules[0]) == "allow"  # it runs without them


def test_what_a_person_was_asked_is_what_runs_in_another_process(talk: Conversation) -> None:
    root = os.path.realpath(talk.bench.root)
    talk.call("cd sub")
    asked = talk.words(command="pwd")
    later = Conversation(talk.bench)
    assert later.run(later.words(asked, command="pwd")).text == f"stdout:\n{root}/sub\nexit code: 0"
    talk.call("export A=1")
    asked = talk.words(command="echo $A")
    with pytest.raises(ToolFailure, match="export it again"):
        later.run(later.words(asked, command="echo $A"))


def test_commands_in_the_background_begin_there_and_change_nothing(talk: Conversation) -> None:
    talk.call("cd sub; export A=1")
    output = talk.call("cd inner; pwd; echo $A; export A=2", background=True)
    assert output.text == f"stdout:\n{os.path.realpath(talk.bench.root)}/sub/inner\n1\nexit code: 0"
    assert talk.text("echo $A; pwd").endswith("/sub")


def test_an_ampersand_at_the_end_means_the_background(talk: Conversation) -> None:
    assert talk.words(command="npm start > log 2>&1 &\n") == {
        "command": "npm start > log 2>&1",
        "background": True,
    }
    for line in ("a && b", "echo 'x &'", "a & b", "echo \\&", "cat <<E\n&\nE"):
        assert talk.words(command=line) == {"command": line}


def test_each_conversation_and_sub_agent_has_a_shell_of_its_own(talk: Conversation) -> None:
    talk.call("cd sub")
    assert Conversation(talk.bench).words(command="ls") == {"command": "ls"}


@pytest.mark.parametrize("path", ["{root}/bin", ".", "bin"])
def test_no_program_of_the_folder_tells_what_a_line_has_left(talk: Conversation, path: str) -> None:
    """A line that is proved to read only is not asked about: nothing else may run beside it."""
    for name in ("bin/env", "bin/wc", "env", "wc"):
        talk.bench.write(name, "#!/bin/sh\necho ran >> ran\n").chmod(0o755)
    talk.bench.env["PATH"] = f"{path.format(root=talk.bench.root)}:{os.environ['PATH']}"
    assert talk.text("cd sub; export A=1; echo here").startswith("here\n[the next command begins in")
    assert talk.text("echo $A; pwd; cd .. ").startswith("1\n")
    assert not list(talk.bench.root.rglob("ran"))


def test_what_is_listed_and_searched_elsewhere_is_said_to_be_there(talk: Conversation) -> None:
    sub = os.path.join(os.path.realpath(talk.bench.root), "sub")
    for line, operation in (("ls", List(path=sub)), ("grep -rn x", Search(query="x", path=sub))):
        assert talk.call(line, workdir="sub").operations == [operation]
        assert talk.call(line).operations == [replace(operation, path="")]
