"""Settings that a folder brings: what counts, how it is told, and trust that ends with the first changed byte."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from harness.approvals.git_config import unknown_settings
from harness.approvals.settings_text import sentences
from harness.approvals.trust import judge, revoke_folder, trust_folder, trusted_folders
from harness.clients.workspaces.worktrees import make_worktree
from harness.errors import HarnessError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "shop"
    path.mkdir()
    return path


def put(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def hooks(command: str) -> dict[str, object]:
    return {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}}


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)


def test_a_folder_without_settings_needs_no_trust(folder: Path) -> None:
    put(folder, "AGENTS.md", "be brief")
    put(folder, ".claude/CLAUDE.md", "be brief")
    git(folder, "init", "-q")
    git(folder, "remote", "add", "origin", "https://example.org/x.git")
    assert judge(str(folder), "claude").state == "nothing"


def test_what_a_wall_puts_where_nothing_may_be_made_is_no_setting(folder: Path) -> None:
    os.mknod(folder / ".mcp.json", 0o644 | stat.S_IFSOCK)
    assert judge(str(folder), "claude").state == "nothing"
    os.unlink(folder / ".mcp.json")
    os.mkfifo(folder / ".mcp.json")
    assert judge(str(folder), "claude").state == "new"


def test_settings_count_for_the_agents_that_obey_them(folder: Path) -> None:
    put(folder, ".claude/settings.json", hooks("./setup.sh"))
    assert judge(str(folder), "claude").state == "new"
    assert judge(str(folder), "grok").state == "new"
    assert judge(str(folder), "codex").state == "nothing"
    assert judge(str(folder), "brought-by-a-plugin", (".claude",)).state == "new"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (
            "copilot",
            ".claude/agents/x.md",
        ),  # its programs were started with an agent that Copilot takes from there
        ("copilot", ".claude/skills/x/SKILL.md"),
        ("copilot", ".claude/commands/x.md"),
        ("copilot", ".agents/skills/x/SKILL.md"),
        ("cursor", ".claude/settings.json"),
        ("qwen", ".agents/skills/x/SKILL.md"),
    ],
)
def test_names_that_an_agent_takes_over_from_another_one_count(folder: Path, agent: str, name: str) -> None:
    put(folder, name, "---\nname: x\n---\n")
    assert judge(str(folder), agent).state == "new"


@pytest.mark.parametrize("name", [".claude/settings.json", "setup.sh", "tools/run"])
def test_trust_ends_with_one_changed_byte_also_of_a_program_that_is_named(folder: Path, name: str) -> None:
    put(folder, "setup.sh", "echo 1\n")
    put(folder, "tools/run", "echo 1\n")
    put(folder, ".claude/settings.json", hooks("./setup.sh && $CLAUDE_PROJECT_DIR/tools/run"))
    trust_folder(judge(str(folder), "claude"))
    assert judge(str(folder), "claude").state == "trusted"
    assert judge(str(folder), "grok").state == "new"
    with (folder / name).open("a") as file:
        file.write(" ")
    changed = judge(str(folder), "claude")
    assert (changed.state, changed.changes) == ("changed", (f"~ {name}",))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("make setup", "Makefile"),
        ("npm run setup", "package.json"),
        ("npm run setup", "tools/run.js"),
        ("python -m tools.start", "tools/start.py"),
        ("python3 -m tools", "tools/__init__.py"),
        ("node tools", "tools/index.js"),
        ("cd tools && ./run.js", "tools/run.js"),
        ("make -C tools", "tools/Makefile"),
        ("just up", "justfile"),
        ("pytest", "conftest.py"),
        ("'./my tool.sh'", "my tool.sh"),
        ('to""ols/run.js', "tools/run.js"),
        ("sh -c '. tools/run.js'", "tools/run.js"),
    ],
)
def test_trust_ends_when_a_program_changes_that_is_named_indirectly(
    folder: Path, command: str, name: str
) -> None:
    put(folder, "package.json", {"scripts": {"setup": "node tools/run.js"}})
    for one in ("Makefile", "tools/Makefile", "tools/run.js", "tools/start.py", "tools/__init__.py"):
        put(folder, one, "1")
    for one in ("tools/index.js", "justfile", "conftest.py", "my tool.sh"):
        put(folder, one, "1")
    put(folder, ".claude/settings.json", hooks(command))
    trust_folder(judge(str(folder), "claude"))
    with (folder / name).open("a") as file:
        file.write(" ")
    assert judge(str(folder), "claude").changes == (f"~ {name}",)


def test_trust_ends_when_a_program_changes_whose_name_is_written_with_escapes(folder: Path) -> None:
    put(folder, "tools/run.sh", "1")
    text = json.dumps(hooks("tools/run.sh")).replace("tools/run.sh", "tools\\u002frun\\u002esh")
    put(folder, ".claude/settings.json", text)
    trust_folder(judge(str(folder), "claude"))
    put(folder, "tools/run.sh", "2")
    assert judge(str(folder), "claude").changes == ("~ tools/run.sh",)


def test_a_new_or_removed_file_ends_trust(folder: Path) -> None:
    put(folder, ".mcp.json", {"mcpServers": {}})
    trust_folder(judge(str(folder), "claude"))
    put(folder, ".claude/skills/x/SKILL.md", "run !`evil`")
    (folder / ".mcp.json").unlink()
    assert judge(str(folder), "claude").changes == ("+ .claude/skills/x/SKILL.md", "- .mcp.json")


def test_what_is_not_obeyed_changes_nothing(folder: Path) -> None:
    put(folder, ".mcp.json", {"mcpServers": {"x": {"command": "npx", "args": ["x"]}}})
    trust_folder(judge(str(folder), "claude"))
    put(folder, "src/a.py", "1")
    put(folder, ".claude/CLAUDE.md", "be brief")
    assert judge(str(folder), "claude").state == "trusted"


def test_trust_is_listed_and_revoked(folder: Path) -> None:
    settings = put(folder, ".mcp.json", {"mcpServers": {}})
    for agent in ("claude", "kimi"):
        trust_folder(judge(str(folder), agent))
    assert [(one.agent, one.state) for one in trusted_folders()] == [
        ("claude", "trusted"),
        ("kimi", "trusted"),
    ]
    settings.write_text("{}")
    assert {one.state for one in trusted_folders()} == {"changed since, not trusted"}
    assert revoke_folder(str(folder)) == ["claude", "kimi"]
    assert trusted_folders() == []
    assert judge(str(folder), "claude").state == "new"


def test_a_link_to_a_trusted_folder_is_that_folder_and_a_copy_is_not(folder: Path, tmp_path: Path) -> None:
    put(folder, ".mcp.json", {"mcpServers": {}})
    trust_folder(judge(str(folder), "claude"))
    (tmp_path / "link").symlink_to(folder)
    assert judge(str(tmp_path / "link"), "claude").state == "trusted"
    put(tmp_path / "copy", ".mcp.json", {"mcpServers": {}})
    copy = str(tmp_path / "copy")
    assert judge(copy, "claude").state == "new"
    assert judge(copy, "claude", origin=str(folder)).state == "trusted"
    put(tmp_path / "copy", ".mcp.json", {"mcpServers": {"x": {}}})
    assert judge(copy, "claude", origin=str(folder)).state == "new"


def test_a_worktree_is_trusted_as_its_repository_while_it_brings_the_same(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    put(folder, ".mcp.json", {"mcpServers": {}})
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    trust_folder(judge(str(folder), "claude"))
    place = make_worktree(str(folder), "run-1")
    assert judge(place, "claude").state == "trusted"
    Path(place, ".mcp.json").write_text("{}")
    assert judge(place, "claude").state == "new"


def test_settings_above_the_folder_count_but_not_those_of_home(folder: Path, tmp_path: Path) -> None:
    put(folder, ".codex/config.toml", "")
    (folder / "src").mkdir()
    assert judge(str(folder / "src"), "codex").state == "new"
    home = tmp_path / "home"
    put(home, ".codex/config.toml", "")
    (home / "shop").mkdir()
    assert judge(str(home), "codex").state == "nothing"
    assert judge(str(home / "shop"), "codex").state == "nothing"


@pytest.mark.parametrize(
    ("text", "is_new"),
    [
        ("[core]\n\tfsmonitor = ./evil\n", True),
        ("[core]\n\tfsmonitor = true\n", False),
        ('[filter "x"]\n\tclean = ./evil\n', True),
        ("[include]\n\tpath = ../evil\n", True),
        ('[branch "main"]\n\tremote = origin\n\tvscode-merge-base = origin/main\n', False),
        ('[remote "origin"]\n\turl = ext::sh -c evil\n', True),
        ('[branch "x"]\n[filter  "x"] clean = ./evil\n', True),
    ],
)
def test_settings_of_git_count_for_every_agent(folder: Path, text: str, is_new: bool) -> None:
    git(folder, "init", "-q")
    with (folder / ".git/config").open("a") as file:
        file.write(text)
    for agent in ("claude", "cline", "aider"):
        assert (judge(str(folder), agent).state == "new") is is_new


def test_a_file_that_git_is_led_to_is_bound_as_well(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "config", "core.hooksPath", ".husky")
    hook = put(folder, ".husky/pre-commit", "true\n")
    trust_folder(judge(str(folder), "claude"))
    hook.write_text("evil\n")
    assert judge(str(folder), "claude").changes == ("~ .husky/pre-commit",)


def test_a_link_to_settings_elsewhere_counts_as_what_it_leads_to(folder: Path, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "settings.json", hooks("./setup.sh"))
    (folder / ".claude").symlink_to(tmp_path / "elsewhere")
    trust_folder(judge(str(folder), "claude"))
    put(tmp_path / "elsewhere", "settings.json", hooks("./evil.sh"))
    assert judge(str(folder), "claude").state == "changed"


def test_more_than_can_be_shown_cannot_be_trusted(folder: Path) -> None:
    for number in range(2_100):
        put(folder, f".claude/skills/{number}.md", "x")
    trust = judge(str(folder), "claude")
    assert trust.state == "new"
    with pytest.raises(HarnessError, match="cannot be trusted"):
        trust_folder(trust)


def test_what_would_be_started_is_told(folder: Path) -> None:
    put(
        folder,
        ".claude/settings.json",
        {
            **hooks("./setup.sh"),
            "apiKeyHelper": "./key.sh",
            "env": {"NODE_OPTIONS": "--require ./evil.js"},
            "permissions": {"allow": ["Bash(*)"], "defaultMode": "bypassPermissions"},
        },
    )
    put(folder, ".mcp.json", {"mcpServers": {"evil": {"command": "npx", "args": ["evil"]}}})
    put(folder, ".claude/skills/x/SKILL.md", "text")
    assert sentences(judge(str(folder), "claude").settings) == [
        "`.claude/settings.json`: runs `./setup.sh` (SessionStart)",
        "`.claude/settings.json`: runs `./key.sh` (apiKeyHelper)",
        "`.claude/settings.json`: sets NODE_OPTIONS",
        "`.claude/settings.json`: asks less: allow `Bash(*)`",
        "`.claude/settings.json`: asks less: defaultMode `bypassPermissions`",
        "`.claude/skills/x/SKILL.md`: a skill, command or agent that may run commands",
        "`.mcp.json`: starts `npx evil` (server evil)",
        "what these programs load in turn may change without another question",
    ]


@pytest.mark.parametrize(
    ("agent", "name", "content", "line"),
    [
        ("codex", ".codex/config.toml", '[mcp_servers.x]\ncommand = "./x"\n', "starts `./x` (server x)"),
        ("codex", ".codex/config.toml", 'notify = ["./x", "y"]\n', "runs `./x y` (notify)"),
        ("gemini", ".gemini/settings.json", {"tools": {"discoveryCommand": "./x"}}, "runs `./x` (discoveryCommand)"),
        ("gemini", ".env", "GEMINI_API_KEY=x\nexport B=2\n", "sets GEMINI_API_KEY, B"),
        ("opencode", "opencode.json", {"plugin": ["./x.js"]}, "loads `./x.js`"),
        ("opencode", "opencode.jsonc", '// a\n{"mcp": {"x": {"command": ["a", "b"]}}}', "starts `a b` (server x)"),
        ("opencode", ".opencode/plugin/x.js", "", "a program that may be run"),
        ("cline", ".cline/hooks/TaskStart", "#!/bin/sh\n", "a program that may be run"),
        ("copilot", ".github/hooks/x.json", {"hooks": {"sessionStart": [{"bash": "./x"}]}}, "runs `./x` (sessionStart)"),
        ("kimi", ".kimi/config.toml", '[[hooks]]\nevent = "E"\ncommand = "./x"\n', "runs `./x` (E)"),
        ("claude", ".claude/settings.json", {"newKey": 1}, "and settings that Harness cannot read"),
        ("claude", ".claude/settings.json", "{", "and settings that Harness cannot read"),
        ("goose", ".goose/config.yaml", "extensions:\n", "and settings that Harness cannot read"),
        ("claude", ".mcp.json", {"mcpServers": {"x": {"command": "a\x1b[2Jb"}}}, "starts `a\\x1b[2Jb` (server x)"),
    ],
)  # fmt: skip
def test_settings_of_agents_are_told(folder: Path, agent: str, name: str, content: object, line: str) -> None:
    put(folder, name, content)
    assert f"`{name}`: {line}" in sentences(judge(str(folder), agent).settings)


def test_a_damaged_record_trusts_nothing(folder: Path, tmp_path: Path) -> None:
    put(folder, ".mcp.json", {"mcpServers": {}})
    trust_folder(judge(str(folder), "claude"))
    record = tmp_path / "data/harness/trusted.json"
    assert os.stat(record).st_mode & 0o077 == 0
    record.write_text(record.read_text().replace('"digest"', '"other"'))
    assert judge(str(folder), "claude").state == "new"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("pi", ".pi/extensions/worktrees/index.ts"),
        ("pi", ".pi/extensions/__pycache__/index.ts"),
        ("claude", ".claude/skills/worktrees/SKILL.md"),
        ("claude", ".claude/agents/CLAUDE.md"),
        ("claude", ".claude/commands/CLAUDE.md"),
    ],
)
def test_no_name_below_what_is_obeyed_hides_a_file(folder: Path, agent: str, name: str) -> None:
    put(folder, name, "1")
    trust_folder(judge(str(folder), agent))
    assert judge(str(folder), agent).state == "trusted"
    put(folder, name, "2")
    assert judge(str(folder), agent).changes == (f"~ {name}",)


def test_copies_that_an_agent_makes_and_what_python_makes_change_nothing(folder: Path) -> None:
    put(folder, ".claude/settings.json", hooks("./setup.sh"))
    trust_folder(judge(str(folder), "claude"))
    put(folder, ".claude/hooks/__pycache__/x.pyc", "1")
    put(folder, ".claude/CLAUDE.md", "be brief")
    assert judge(str(folder), "claude").state == "trusted"


def test_another_name_of_what_is_known_already_ends_trust(folder: Path) -> None:
    put(folder, ".claude/a/x/SKILL.md", "1")
    trust_folder(judge(str(folder), "claude"))
    (folder / ".claude/skills").symlink_to("a")
    assert judge(str(folder), "claude").changes == ("+ .claude/skills",)


@pytest.mark.parametrize("below", ["", "docs/deep"])
def test_settings_of_a_folder_that_git_takes_for_a_repository_count(folder: Path, below: str) -> None:
    git(folder, "init", "-q", "--bare", ".")
    (folder / below).mkdir(parents=True, exist_ok=True)
    assert judge(str(folder / below), "claude").state == "nothing"
    with (folder / "config").open("a") as file:
        file.write("[core]\n\tfsmonitor = ./evil\n")
    assert [one.name for one in judge(str(folder / below), "claude").settings.git] == ["core.fsmonitor"]


TRICKY_CONFIGURATIONS = [
    '[filter "x"] clean = ./evil',
    '[filter  "x"]\n clean = ./evil',
    '[filter\t"x"]clean=./evil',
    '[branch "x"]\n[filter "a\\"b"]\n clean = ./evil',
    '[branch "x"]\n[filter "a\\\\b"]\n clean = ./evil',
    '[branch "x"]\n[filter.x]\n clean = ./evil',
    '[BRANCH "x"]\n[Filter "X"] Clean = ./evil',
    '\ufeff[filter "x"]\n clean = ./evil',
    '[branch "x"] remote = o\n[filter "x"] # [branch "x"]\n clean = ./evil',
    '[branch "x"][filter "y"] clean = ./evil',
    '[filter "x"]\n clean = ./ev\\\nil',
    "[core] fsmonitor = ./evil ; true",
]


@pytest.mark.parametrize("text", TRICKY_CONFIGURATIONS)
def test_settings_of_git_have_the_names_that_git_gives_them(text: str, tmp_path: Path) -> None:
    """By these names they are switched off."""
    (tmp_path / "config").write_text(text)
    command = ("git", "config", "-z", "--list", "--file", str(tmp_path / "config"))
    listed = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
    names = [entry.partition("\n")[0] for entry in listed.split("\0") if entry]
    wanted = [name for name in names if not name.startswith("branch.")]
    assert wanted
    assert {*wanted} <= {setting.name for setting in unknown_settings(text)}


@pytest.mark.parametrize("version", ["2", "4"])
def test_settings_of_a_repository_inside_count(folder: Path, version: str) -> None:
    git(folder, "init", "-q")
    git(folder, "config", "index.version", version)
    for name in ("a", "deep/b", "z"):
        put(folder, f"{name}/x.txt", "1")
    for name in ("a/sub", "vendor/other"):
        git(folder, "init", "-q", name)
        inside = folder / name
        git(inside, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "x")
    git(folder, "-c", "advice.addEmbeddedRepo=false", "add", ".")
    git(folder, "config", "--unset", "index.version")
    assert judge(str(folder), "claude").state == "nothing"
    git(folder / "vendor/other", "config", "core.fsmonitor", "./evil")
    assert [one.name for one in judge(str(folder), "claude").settings.git] == ["core.fsmonitor"]
    git(folder / "a/sub", "config", "filter.x.clean", "./evil")
    assert {one.name for one in judge(str(folder), "claude").settings.git} == {
        "core.fsmonitor",
        "filter.x.clean",
    }


def test_each_value_of_a_setting_that_is_there_twice_is_bound(folder: Path) -> None:
    put(folder, ".git/config", "[include]\n\tpath = a\n\tpath = b\n")
    put(folder, ".git/HEAD", "ref: refs/heads/main\n")
    trust_folder(judge(str(folder), "claude"))
    put(folder, ".git/config", "[include]\n\tpath = c\n\tpath = b\n")
    assert judge(str(folder), "claude").changes == ("~ .git: include.path",)
