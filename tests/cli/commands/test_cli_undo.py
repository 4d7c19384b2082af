"""`harness undo` and `redo`: turns of the built-in agent and of agent programs, with what their commands did."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli_machine import CODEX_LINES, CliMachine

CLEAN_UP = (
    "rm -rf docs .env && sed -i s/three/THREE/ src/*.py && mkdir gen && echo x > gen/a && chmod 755 src/m1.py"
)


@pytest.fixture
def project(cli: CliMachine) -> Path:
    """A folder with files that an agent spoils; programs as commands need them."""
    for folder in ("docs", "src"):
        (cli.project / folder).mkdir()
    for number in (1, 2, 3):
        (cli.project / f"docs/{number}.md").write_text(f"document {number}\n")
        (cli.project / f"src/m{number}.py").write_text("one\ntwo\nthree\nfour\nfive\nsix\n")
    (cli.project / ".env").write_text("KEY=1\n")
    (cli.project / ".gitignore").write_text(".env\n")
    for program in ("rm", "sed", "mkdir", "chmod", "mv"):
        (cli.bin / program).symlink_to(f"/bin/{program}")
    return cli.project


def look(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        os.path.relpath(path, folder): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def run_native(cli: CliMachine, command: str, prompt: str = "clean up") -> None:
    script = cli.root / "script.toml"
    call = json.dumps(command)
    script.write_text(
        f'turns = [[{{ tool = "bash", input = {{ command = {call} }} }}], [{{ text = "Done." }}]]'
    )
    answer = cli.call("run", "-a", "native", "-m", f"scripted/{script}", "-p", prompt)
    assert answer.code == 0, answer.err


def test_a_turn_of_the_built_in_agent_is_taken_back_and_brought_again(cli: CliMachine, project: Path) -> None:
    before = look(project)
    run_native(cli, CLEAN_UP)
    after = look(project)
    assert "docs/1.md" not in after
    answer = cli.call("undo", "--yes")
    assert (answer.code, look(project)) == (0, before)
    assert "it was deleted" in answer.out
    assert cli.call("undo").code == 3
    answer = cli.call("redo", "--yes")
    assert (answer.code, look(project)) == (0, after)
    assert cli.call("redo", "--yes").code == 3
    assert cli.call("undo", "last", "1", "--yes").code == 0
    assert look(project) == before


def test_a_turn_of_an_agent_program_is_taken_back(cli: CliMachine, project: Path) -> None:
    before = look(project)
    cli.install("codex", before="cat >/dev/null", after=CLEAN_UP)
    assert cli.call("run", "-a", "codex", "-p", "clean up").code == 0
    assert look(project) != before
    assert cli.call("undo", "--yes").code == 0
    assert look(project) == before


def test_what_the_user_changed_since_stays(cli: CliMachine, project: Path) -> None:
    run_native(cli, CLEAN_UP)
    (project / "src/m2.py").write_text("one\ntwo\nTHREE\nfour\nfive\nsix, mine\n")
    (project / "src/m3.py").write_text("one\ntwo\nmine instead\nfour\nfive\nsix\n")
    (project / "gen/mine").write_text("mine\n")
    (project / ".env").write_text("MINE=1\n")
    answer = cli.call("undo", "--yes")
    assert answer.code == 1
    assert (project / "src/m2.py").read_text() == "one\ntwo\nthree\nfour\nfive\nsix, mine\n"
    assert (project / "src/m3.py").read_text() == "one\ntwo\nmine instead\nfour\nfive\nsix\n"
    assert (project / "gen/mine").read_text() == "mine\n"
    assert not (project / "gen/a").exists()
    assert (project / ".env").read_text() == "MINE=1\n"
    kept = [line for line in answer.out.split("\n") if line.startswith("  keep")]
    assert [line.split()[1] for line in kept] == [".env", "gen", "src/m3.py"]
    assert cli.call("undo", "1", "--yes", "--force", "src/m3.py", "--path", "src/m3.py").code == 0
    assert (project / "src/m3.py").read_text().split("\n")[2] == "three"


def test_what_the_user_did_while_no_call_ran_is_kept(cli: CliMachine, project: Path) -> None:
    lines = "\n".join(CODEX_LINES[:5])
    cli.script(
        "codex",
        f'[ "$1" = --version ] && {{ echo "codex-cli 0.166.0"; exit 0; }}\n'
        f"cat >/dev/null\ncat <<'EOL'\n{lines}\nEOL\nsleep 0.6\necho mine > notes.md\nsleep 0.6\n"
        f"cat <<'EOL'\n{CODEX_LINES[5]}\nEOL\n",
    )
    assert cli.call("run", "-a", "codex", "-p", "look").code == 0
    answer = cli.call("undo", "1", "--yes")
    assert answer.code == 1
    assert "changed while no call was running: yours" in answer.out
    assert (project / "notes.md").read_text() == "mine\n"
    assert cli.call("undo", "1", "--yes", "--path", "notes.md").code == 0
    assert not (project / "notes.md").exists()


def test_turns_of_a_range_are_taken_back_together(cli: CliMachine, project: Path) -> None:
    before = look(project)
    run_native(cli, "echo 1 >> src/m1.py && echo 1 > new")
    run_native(cli, "echo 2 >> src/m1.py && rm new")
    first, second = sorted(path.stem for path in cli.logs())
    assert cli.call("undo", first, "--yes").code == 1, "what came later stays"
    assert (project / "src/m1.py").read_text().endswith("six\n1\n2\n")
    assert cli.call("undo", second, "1..1", "--yes").code == 0
    assert cli.call("undo", first, "--yes").code == 0
    assert look(project) == before


def test_a_session_that_changed_nothing_names_the_one_before_it(cli: CliMachine, project: Path) -> None:
    run_native(cli, "echo x > x")
    run_native(cli, "true", prompt="look")
    answer = cli.call("undo")
    assert answer.code == 3
    earlier = answer.err.split("harness undo ")[1].split()[0]
    assert cli.call("undo", earlier, "--yes").code == 0
    assert not (project / "x").exists()


def test_what_is_asked_wrongly_is_said(cli: CliMachine, project: Path) -> None:
    answer = cli.call("undo")
    assert answer.code == 3
    assert "was recorded" in answer.err
    run_native(cli, "echo x > x")
    answer = cli.call("undo", "9")
    assert answer.code == 2
    assert "turn 9: there is one" in answer.err
    assert cli.call("undo", "2..1").code == 2
    answer = cli.call("undo", "--path", "/etc/passwd", "--yes")
    assert answer.code == 2
    assert "is not in" in answer.err
    answer = cli.call("undo")
    assert answer.code == 2
    assert "no terminal" in answer.err
    assert (project / "x").exists()
    assert cli.call("undo", "--list", "--json").data[0]["files"] == 1
    assert "+x" not in cli.call("undo", "--show", "x").out
    assert cli.call("undo", "--forget").code == 0
    assert cli.call("undo").code == 3


def test_it_can_be_switched_off_by_the_user_alone(cli: CliMachine, project: Path) -> None:
    (project / "harness.toml").write_text("[undo]\non = false\n")
    run_native(cli, "echo x > x")
    assert cli.call("undo", "--yes").code == 0
    (cli.home / ".config/harness").mkdir(parents=True)
    (cli.home / ".config/harness/config.toml").write_text("[undo]\non = false\n")
    run_native(cli, "echo y > y")
    assert cli.call("undo", "last", "--yes").code == 3
    assert (project / "y").exists()
    (cli.home / ".config/harness/config.toml").write_text("[undo]\nmb = -1\n")
    assert "megabytes" in cli.call("config", "show").err + cli.call("config", "show").out


def test_names_cannot_command_a_terminal(cli: CliMachine, project: Path) -> None:
    run_native(cli, "printf x > \"$(printf 'a\\033[2Jb')\"")
    answer = cli.call("undo", "--yes")
    assert answer.code == 0
    assert "\x1b" not in answer.out
    assert len([*project.iterdir()]) == 4
