"""The decision: one order for every agent. What a call says of itself beside its tool and arguments never counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.approvals.approver import Approver
from harness.approvals.arguments import spelled
from harness.approvals.call import (
    ACCEPT_EDITS,
    ASK,
    FULL_ACCESS,
    MODES,
    PLAN,
    READ_ONLY,
    AccessMode,
    ProposedCall,
)
from harness.approvals.decide import decide
from harness.approvals.free_commands import free_programs
from harness.approvals.rules import Rule
from harness.approvals.tool_table import (
    EXECUTES,
    OWN,
    ToolTable,
    by_prefix,
    edits,
    edits_by,
    lists,
    reads,
    runs,
    searches,
)
from harness.approvals.work_folder import WorkFolder

TABLE = ToolTable(
    uses={
        "Bash": runs("command"),
        "Read": reads("file_path"),
        "Grep": searches("path"),
        "Edit": edits("file_path", "path"),
        "Patch": edits_by(lambda arguments: arguments.get("files")),
        "Skill": EXECUTES,
        "TodoWrite": OWN,
    },
    server_of=by_prefix("mcp__"),
)


@pytest.fixture
def workspace(tmp_path: Path) -> WorkFolder:
    root = tmp_path / "w"
    (root / "src").mkdir(parents=True)
    (root / ".git/hooks").mkdir(parents=True)
    (root / "src/a.py").write_text("1\n")
    (root / "out").symlink_to("/etc")
    (root / "d1/d2/d3/d4").mkdir(parents=True)
    (root / "deep").symlink_to("d1/d2/d3/d4")
    os.link(root / "src/a.py", root / "src/second-name.py")
    (root / "b.py").write_text("1\n")
    return WorkFolder(root=os.path.realpath(root), programs=free_programs({"PATH": "/usr/bin:/bin"}))


CALLS = {
    "own": TABLE.call("TodoWrite", {"todos": []}),
    "read": TABLE.call("Read", {"file_path": "b.py"}),
    "search without a folder": TABLE.call("Grep", {"pattern": "x"}),
    "read elsewhere": TABLE.call("Read", {"file_path": "/etc/passwd"}),
    "read through a link": TABLE.call("Read", {"file_path": "out/passwd"}),
    "read of the environment": TABLE.call("Read", {"file_path": "/proc/self/environ"}),
    "read of no file": TABLE.call("Read", {}),
    "edit": TABLE.call("Edit", {"file_path": "b.py"}),
    "edit of a new file": TABLE.call("Edit", {"file_path": "new.py"}),
    "edit of a hook": TABLE.call("Edit", {"file_path": ".git/hooks/pre-commit"}),
    "edit elsewhere": TABLE.call("Edit", {"file_path": "~/.bashrc"}),
    "edit of two files": TABLE.call("Edit", {"file_path": "b.py", "path": "/etc/passwd"}),
    "edit of a second name": TABLE.call("Edit", {"file_path": "src/second-name.py"}),
    "free command": TABLE.call("Bash", {"command": "ls -la"}),
    "command": TABLE.call("Bash", {"command": "./tools/cat x"}),
    "skill": TABLE.call("Skill", {"skill": "x"}),
    "server": TABLE.call("mcp__docs__read", {"path": "b.py"}),
    "unknown": TABLE.call("Frobnicate", {"path": "b.py"}),
}
ALLOWED = {
    "read-only": {"own", "read", "search without a folder"},
    "plan": {"own", "read", "search without a folder"},
    "ask": {"own", "read", "search without a folder", "free command"},
    "accept-edits": {
        "own",
        "read",
        "search without a folder",
        "free command",
        "edit",
        "edit of a new file",
    },
    "full-access": set(CALLS),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=lambda mode: mode.name)
@pytest.mark.parametrize("what", CALLS)
def test_each_mode_allows_what_it_says_and_nothing_else(
    mode: AccessMode, what: str, workspace: WorkFolder
) -> None:
    otherwise = "deny" if mode in (READ_ONLY, PLAN) else "ask"
    expected = "allow" if what in ALLOWED[mode.name] else otherwise
    assert decide([CALLS[what]], mode, (), workspace).answer == expected


def test_the_strongest_answer_to_any_call_is_that_of_the_question(workspace: WorkFolder) -> None:
    decision = decide([CALLS["read"], CALLS["command"], CALLS["own"]], ASK, (), workspace)
    assert decision.answer == "ask"
    assert [call.tool for call in decision.calls] == ["Read", "Bash", "TodoWrite"]
    denied = Rule(answer="deny", tool="Bash")
    assert decide([CALLS["read"], CALLS["command"]], FULL_ACCESS, [denied], workspace).answer == "deny"


@pytest.mark.parametrize(("mode", "answer"), [(READ_ONLY, "deny"), (ASK, "ask"), (FULL_ACCESS, "allow")])
def test_a_question_that_names_no_call_is_asked(mode: AccessMode, answer: str, workspace: WorkFolder) -> None:
    assert decide([], mode, (), workspace).answer == answer


def test_what_cannot_be_seen_is_asked_about_where_a_rule_denies_something(workspace: WorkFolder) -> None:
    assert decide([], FULL_ACCESS, [Rule(answer="deny", command="git push")], workspace).answer == "ask"


def test_doubt_is_asked_about_whatever_was_granted(workspace: WorkFolder) -> None:
    call = TABLE.call("Read", {"file_path": "b.py"}, doubt="the streamed call is another one")
    granted = Rule(answer="allow", tool="Read", source="grant")
    decision = decide([call], ASK, [granted], workspace)
    assert (decision.answer, decision.why) == ("ask", "the streamed call is another one")
    assert decide([call], READ_ONLY, [granted], workspace).answer == "deny"


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": ["ls"], "x": 1},
        {"command": 1},
        "ls",
        {"command": "ls", "cwd": ["/"]},
    ],
)
def test_arguments_that_are_not_those_of_the_tool_are_asked_about(
    arguments: object, workspace: WorkFolder
) -> None:
    call = TABLE.call("Bash", arguments)
    assert decide([call], ASK, (), workspace).answer == "ask" or call.command == "ls"
    odd = TABLE.call("Edit", {"file_path": {"a": "b"}})
    assert odd.doubt
    assert decide([odd], ACCEPT_EDITS, (), workspace).answer == "ask"


def test_a_patch_whose_files_cannot_be_read_is_asked_about(workspace: WorkFolder) -> None:
    assert decide([TABLE.call("Patch", {})], ACCEPT_EDITS, (), workspace).answer == "ask"
    several = TABLE.call("Patch", {"files": ["b.py", "src/new.py"]})
    assert decide([several], ACCEPT_EDITS, (), workspace).answer == "allow"
    moved = TABLE.call("Patch", {"files": ["b.py", "../elsewhere.py"]})
    assert decide([moved], ACCEPT_EDITS, (), workspace).answer == "ask"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "~root/x",
        "file:///etc/passwd",
        "a\0b",
        "/proc/1/environ",
        "/dev/tcp/x/1",
        "\\\\x\\y",
        "",
        " /etc/passwd",
        "\u00a0/etc/passwd",
        "\ufeff/etc/passwd",
        "/etc/passwd ",
        "@/etc/passwd",
        " @~/.ssh/id_rsa",
        "@../x",
        "$HOME/x",
        "${HOME}/x",
        "file:/etc/passwd",
        "'/etc/passwd'",
        "..\\x",
        "b.py\n/etc/passwd",
        "deep/../../x",
        "deep/../../../etc/passwd",
    ],
)
def test_a_path_that_is_not_certainly_below_the_folder_is_asked_about(
    path: str, workspace: WorkFolder
) -> None:
    for tool in ("Read", "Edit"):
        assert decide([TABLE.call(tool, {"file_path": path})], ACCEPT_EDITS, (), workspace).answer == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "git push",
        "git push origin main",
        "cd x && git push --force",
        "git -C sub push",
        "git --no-pager -c a=b push",
        "/usr/bin/git push",
        "bash -c 'git push'",
        "sudo env A=b git push",
        "g''it pu\"s\"h",
        "git${IFS}push",
        "true; git push #",
        "$(git push)",
        "xargs git push",
    ],
)
def test_a_command_that_a_rule_denies_is_denied_in_every_mode_and_spelling(
    line: str, workspace: WorkFolder
) -> None:
    rule = Rule(answer="deny", command="git push")
    for mode in MODES.values():
        assert decide([TABLE.call("Bash", {"command": line})], mode, [rule], workspace).answer == "deny", line
    assert decide([TABLE.call("shell", {"cmd": line})], FULL_ACCESS, [rule], workspace).answer == "deny"


@pytest.mark.parametrize("line", ["git pull", "git commit -m push", "echo git-push", "git log", "gitpush"])
def test_a_command_that_only_looks_like_it_is_not_denied(line: str, workspace: WorkFolder) -> None:
    rule = Rule(answer="deny", command="git push")
    assert decide([TABLE.call("Bash", {"command": line})], FULL_ACCESS, [rule], workspace).answer == "allow"


@pytest.mark.parametrize(
    "call",
    [
        TABLE.call("Read", {"file_path": ".env"}),
        TABLE.call("Edit", {"file_path": "src/../.env"}),
        TABLE.call("Read", {"file_path": "sub/.env"}),
        TABLE.call("Bash", {"command": "cat .env"}),
        TABLE.call("Bash", {"command": "cat < './.env'"}),
        TABLE.call("Bash", {"command": "x --file=.env"}),
    ],
)
def test_a_path_that_a_rule_denies_is_denied_for_every_tool(
    call: ProposedCall, workspace: WorkFolder
) -> None:
    rule = Rule(answer="deny", path=".env")
    assert decide([call], FULL_ACCESS, [rule], workspace).answer == "deny"


def test_a_rule_that_asks_holds_in_full_access_and_one_that_allows_only_in_modes_that_ask(
    workspace: WorkFolder,
) -> None:
    call = CALLS["command"]
    assert decide([call], FULL_ACCESS, [Rule(answer="ask", tool="Bash")], workspace).answer == "ask"
    allow = Rule(answer="allow", tool="Bash")
    assert decide([call], ASK, [allow], workspace).answer == "allow"
    assert decide([call], READ_ONLY, [allow], workspace).answer == "deny"
    assert decide([call], ASK, [allow, Rule(answer="ask", tool="Bash")], workspace).answer == "ask"


def test_a_projects_rule_never_allows(workspace: WorkFolder) -> None:
    rule = Rule(answer="allow", tool="Bash", source="project")
    assert decide([CALLS["command"]], ASK, [rule], workspace).answer == "ask"


@pytest.mark.parametrize(
    ("rule", "line", "is_allowed"),
    [
        ("npm test", "npm test", True),
        ("npm test", "npm test x", False),
        ("npm test *", "npm test x", True),
        ("npm test *", "npm test --script-shell=./evil", False),
        ("npm test *", "npm test && npm test y", True),
        ("npm test *", "npm test; ./evil", False),
        ("npm test *", "npm test > /etc/x", False),
        ("npm test *", "npm test ../x", False),
        ("npm test *", "npm test A=b", False),
        ("npm test *", "npm test @file", False),
        ("a > b", "a > b", True),
    ],
)
def test_a_rule_that_allows_a_command_covers_no_more_than_it_says(
    rule: str, line: str, is_allowed: bool, workspace: WorkFolder
) -> None:
    decision = decide(
        [TABLE.call("Bash", {"command": line})], ASK, [Rule(answer="allow", command=rule)], workspace
    )
    assert (decision.answer == "allow") is is_allowed


def test_an_argument_that_asks_for_more_rights_is_not_covered_by_a_rule_for_the_command(
    workspace: WorkFolder,
) -> None:
    rule = Rule(answer="allow", command="npm test")
    for more in ({"sandbox_permissions": "require_escalated"}, {"dangerouslyDisableSandbox": True}):
        call = TABLE.call("Bash", {"command": "npm test", "description": "tests", **more})
        assert decide([call], ASK, [rule], workspace).answer == "ask"


def test_a_rule_for_a_path_allows_where_the_path_leads(workspace: WorkFolder) -> None:
    rule = Rule(answer="allow", category="edit", path="src/*")
    allowed = TABLE.call("Edit", {"file_path": "src/new.py"})
    assert decide([allowed], ASK, [rule], workspace).answer == "allow"
    for path in ("src/../b.py", "out/x", "b.py"):
        assert decide([TABLE.call("Edit", {"file_path": path})], ASK, [rule], workspace).answer == "ask"


def test_after_a_command_that_may_have_changed_the_shell_nothing_is_free_until_the_next_turn(
    workspace: WorkFolder,
) -> None:
    approvals = Approver(ASK, workspace, shell="kept")
    free = [CALLS["free command"]]
    assert approvals.decide(free).answer == "allow"
    approvals.note_allowed([TABLE.call("Bash", {"command": "alias ls=./evil"})])
    assert approvals.decide(free).answer == "ask"
    approvals.begin_turn()
    assert approvals.decide([TABLE.call("Bash", {"command": "cd src && ls"})]).answer == "allow"
    assert approvals.decide(free).answer == "ask"
    fresh = Approver(ASK, workspace)
    fresh.note_allowed([CALLS["command"]])
    assert fresh.decide(free).answer == "allow"


def test_rules_for_another_agent_do_not_count(workspace: WorkFolder) -> None:
    rule = Rule(answer="deny", command="git push", agent="codex")
    call = [TABLE.call("Bash", {"command": "git push"})]
    assert Approver(FULL_ACCESS, workspace, [rule], agent="claude").decide(call).answer == "allow"
    assert Approver(FULL_ACCESS, workspace, [rule], agent="codex").decide(call).answer == "deny"


def test_an_edit_of_what_others_obey_is_asked_about_in_every_reading_of_the_path(
    workspace: WorkFolder,
) -> None:
    for path in ("@.git/hooks/x", " .git/hooks/x", "deep/../.git/hooks/x", ".git\\hooks\\x"):
        call = TABLE.call("Edit", {"file_path": path})
        assert decide([call], ACCEPT_EDITS, (), workspace).answer == "ask", path


def test_a_denied_path_is_denied_in_every_reading(workspace: WorkFolder) -> None:
    rule = Rule(answer="deny", path="b.py")
    for path in ("@b.py", " b.py", "deep/../b.py", "src\\..\\b.py"):
        call = TABLE.call("Read", {"file_path": path})
        assert decide([call], FULL_ACCESS, [rule], workspace).answer == "deny", path


def test_a_rule_for_a_path_allows_only_what_is_meant_in_every_reading(workspace: WorkFolder) -> None:
    rule = Rule(answer="allow", category="edit", path="src/")
    for path in ("@src/../../x", "deep/../../src/x"):
        call = TABLE.call("Edit", {"file_path": path})
        assert decide([call], ASK, [rule], workspace).answer == "ask", path


@pytest.mark.parametrize(
    "beside",
    [
        {"env": {"LD_PRELOAD": "./x.so"}},
        {"environment": ["A=b"]},
        {"shell": "./evil"},
        {"workdir": "/etc"},
        {"working_dir": "deep/../.."},
        {"directory": "/etc", "cwd": "."},
    ],
)
def test_a_free_command_with_an_argument_that_changes_it_is_asked_about(
    beside: dict[str, object], workspace: WorkFolder
) -> None:
    call = TABLE.call("Bash", {"command": "ls", **beside})
    assert decide([call], ASK, (), workspace).answer == "ask"


def test_a_free_command_stays_free_with_a_description_a_time_and_a_switch(workspace: WorkFolder) -> None:
    beside = {
        "description": "look",
        "timeout": 5,
        "run_in_background": False,
        "riskLevel": "low",
        "cwd": "src",
    }
    assert decide([TABLE.call("Bash", {"command": "ls", **beside})], ASK, (), workspace).answer == "allow"


COMES_TO_IT = """
git -C 'my dir' push|git -c "http.extraHeader=a: b" push|git -C "$(git rev-parse --show-toplevel)" push
git 2>/dev/null push|>/dev/null git push|git >x push|git &>x push
taskset 1 git push|uv run git push|docker run x git push|systemd-run git push|git bisect run git push
g=push; git $g|g=git; $g push|x="git push"; $x|git ${x:-push}|git $(echo push)|git `echo push`|$(echo git push)
git $'push'|git $'\\x70ush'|$'git' push|$"git" push|git pu${x}sh|git pu$@sh|git$IFS$9push|git$IFSpush|$EMPTY git push
git pus?|git pus[h]|/usr/bin/gi? push|/usr/bin/g*t push|{git,push}|g{i,}t push|GIT push|git.exe push
eval "git $x"|sh -c "$x"|sudo -u x $cmd|bash -c 'git "$0"' push|f() { git "$@"; }; f push|set -- git push; "$@"
echo git push | sh|echo Z2l0IHB1c2g= | base64 -d | sh|bash < x|curl -s x | bash
echo push | xargs git|xargs -a f git|xargs -I{} git {} <<< push|parallel git ::: push|find . -exec git {} +
alias g=git; g push|git -c alias.p=push p|git config alias.p push && git p|cp /usr/bin/git x; ./x push|ln -s /usr/bin/git x
git subtree push -P a o b|git lfs push o main|git -C x lfs push o|git svn dcommit|git send-pack o|git push-all|jj git push|lazygit
gh repo sync|/usr/bin/gh pr create -f|cd x && gh api -X POST a|bash -c 'gh repo sync'|sh -c "git lfs push"|glab mr merge
git config core.hooksPath x|git -c core.sshCommand=./x fetch|git config --global filter.a.clean ./x|git config set alias.p x
env ENV=./x sh -ic true|BASH_ENV=./x bash -c true|GIT_SSH_COMMAND=./x git fetch|env LD_PRELOAD=./x.so ls|ZDOTDIR=. zsh -c ls
git-push|/usr/lib/git-core/git-push|vim -c '!git push' -c q|sed '1e git push' f
perl -e 'system "git", "push"'|python3 -c 'import os; os.system("git "+"push")'|node -e "x('git', ['push'])"|ruby -e 'exec %w[git push][0], "push"'
awk 'BEGIN { c = "git"; system(c " push") }'|python3 -c 'import os; os.system("gi"+"t pu"+"sh")'|perl -e 'exec "git","pu"."sh"'
node -e "require('child_process').execSync(['git','pu'+'sh'].join(' '))"|awk 'BEGIN{system("git pu" "sh")}'|awk 'BEGIN{"git pu" "sh" | getline}'
vim -es -c 'exe "!git pu"."sh"' -c q|sed 's/.*/git pu\\x73h/e' f|sed -e '1e git pu''sh' f|bash -c 'git pu''sh'|python3 -c 'getattr(o, "sys"+"tem")(x)'
source <(printf 'git %s' push)|. /dev/stdin|source /proc/self/fd/0|=git push|cp $(which git) x && ./x push|ln -s `command -v git` x
"""
ORDINARY = """
gh pr view 3|gh run list --json a|glab issue list|git config user.name x|git config --get core.hooksPath|GIT_PAGER=cat git log
git lfs pull|git subtree pull -P a b c|git commit -m "use gh repo sync"|jj log|gh --version|git config --list|bash -c 'gh pr diff 3'
npm test|for f in *.py; do echo $f; wc -l "$f"; done|echo $HOME|git log $x|git commit -m "fix: $x and push"|git stash push
export A=$(git rev-parse HEAD)|find . -name "$x" -exec wc -l {} +|ls | xargs -n1 echo|docker push x|"$VENV/bin/python" x.py
[ -n "$X" ] && echo yes|if ! grep -q x f; then echo no; fi|cat .git/config|which git|apt install git|make -j$(nproc)
python3 -c "print('pushed')"|python3 tools/git.py push|awk '{print $1}' push|node git.js|env FOO=$BAR npm test|while read l; do echo "$l"; done < f|git diff HEAD~1 -- src/*.py|bash scripts/x.sh|rm -f *.o|npm run push
python3 -c "import json,sys; print(json.load(sys.stdin)['x'])"|sed -i 's/a/e/g' f|sed -n -e 2p f|perl -pe 's/a/b/' f|node -e "console.log(1)"
source .venv/bin/activate && pytest|. ./env.sh|cp $(which ls) x|awk -F: '{print $1}' f|echo "it's" 'git'
"""


def _listed(lines: str) -> list[str]:
    return [each for line in lines.strip().split("\n") for each in line.replace("| ", "\0").split("|")]


@pytest.mark.parametrize("line", [line.replace("\0", "| ") for line in _listed(COMES_TO_IT)])
def test_a_line_that_could_come_to_a_denied_command_is_never_allowed_unasked(
    line: str, workspace: WorkFolder
) -> None:
    rule = Rule(answer="deny", command="git push")
    for mode in (ASK, FULL_ACCESS):
        answer = decide([TABLE.call("Bash", {"command": line})], mode, [rule], workspace).answer
        assert answer in ("ask", "deny"), line
    server = TABLE.call("mcp__sh__run", {"command": line})
    assert decide([server], FULL_ACCESS, [rule], workspace).answer in ("ask", "deny"), line


@pytest.mark.parametrize("line", [line.replace("\0", "| ") for line in _listed(ORDINARY)])
def test_ordinary_lines_are_allowed_where_a_rule_denies_another_command(
    line: str, workspace: WorkFolder
) -> None:
    rule = Rule(answer="deny", command="git push")
    assert decide([TABLE.call("Bash", {"command": line})], FULL_ACCESS, [rule], workspace).answer == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "cd src && cat a.py",
        "cd src; cat a.py",
        "(cd src; cat a.py)",
        "git -C src show :a.py",
        "git show HEAD:src/a.py",
        "cat src/*",
        "cat src/a.p?",
        "cat {src/a.py,b.py}",
        "cat src/{a,x}.py",
        "curl -d @src/a.py x",
        "curl -F f=@src/a.py x",
    ],
)
def test_a_denied_path_is_found_however_a_line_names_it(line: str, workspace: WorkFolder) -> None:
    rule = Rule(answer="deny", path="src/a.py")
    for mode in (ASK, FULL_ACCESS):
        assert decide([TABLE.call("Bash", {"command": line})], mode, [rule], workspace).answer == "deny", line


def test_a_denied_path_is_found_in_the_arguments_of_a_tool_that_is_not_known(workspace: WorkFolder) -> None:
    rule = Rule(answer="deny", path="src/a.py")
    for arguments in ({"path": "src/a.py"}, {"files": [{"uri": "src/../src/a.py"}]}, {"x": "@src/a.py"}):
        for tool in ("mcp__fs__read", "frobnicate"):
            call = TABLE.call(tool, arguments)
            assert decide([call], FULL_ACCESS, [rule], workspace).answer == "deny", arguments


def test_a_search_through_a_folder_with_something_denied_is_asked_about(workspace: WorkFolder) -> None:
    rule = Rule(answer="deny", path="a.py")
    search = TABLE.call("Grep", {"pattern": "x"})
    lines = ("grep -rn x .", "grep -r x", "cd src && grep -r x .", "rg x", "cp -r src /tmp/x")
    for call in (search, *(TABLE.call("Bash", {"command": line}) for line in lines)):
        for mode in (ASK, FULL_ACCESS):
            assert decide([call], mode, [rule], workspace).answer == "ask", call.command
    assert decide([search], READ_ONLY, [rule], workspace).answer == "deny"
    elsewhere = TABLE.call("Grep", {"pattern": "x", "path": "d1"})
    assert decide([elsewhere], READ_ONLY, [rule], workspace).answer == "allow"
    granted = Rule(answer="allow", category="read", path=f"{workspace.root}/", source="grant")
    assert decide([search], ASK, [rule, granted], workspace).answer == "allow"


def test_names_in_a_folder_with_something_denied_are_listed(workspace: WorkFolder) -> None:
    rule = Rule(answer="deny", path="a.py")
    table = ToolTable(uses={"LS": lists("path")})
    assert decide([table.call("LS", {})], READ_ONLY, [rule], workspace).answer == "allow"
    assert decide([TABLE.call("Bash", {"command": "ls -R"})], ASK, [rule], workspace).answer == "allow"


def test_a_call_that_does_not_say_what_it_does_is_asked_about_where_a_rule_denies(
    workspace: WorkFolder,
) -> None:
    rule = Rule(answer="deny", path="src/a.py")
    call = TABLE.call("Read", {}, doubt="its arguments are not known yet")
    assert decide([call], FULL_ACCESS, [rule], workspace).answer == "ask"
    assert decide([call], FULL_ACCESS, (), workspace).answer == "allow"


def test_a_server_whose_name_has_the_separator_in_it_is_denied_by_its_name(workspace: WorkFolder) -> None:
    call = TABLE.call("mcp__my__docs__search", {"words": "x"})
    for server in ("my__docs", "my", "my__*"):
        rule = Rule(answer="deny", server=server)
        assert decide([call], FULL_ACCESS, [rule], workspace).answer == "deny"
    allowed = Rule(answer="allow", server="my__docs")
    assert decide([call], ASK, [allowed], workspace).answer == "ask"
    assert decide([call], FULL_ACCESS, [Rule(answer="deny", server="docs")], workspace).answer == "allow"


def test_an_argument_that_is_no_text_can_be_compared() -> None:
    """The name of a file, or of a variable, is bytes."""
    assert spelled({"a": "caf\udce9"}) == '{"a": "caf\\udce9"}'
    assert spelled({"a": ["é"]}) == '{"a":["é"]}'
