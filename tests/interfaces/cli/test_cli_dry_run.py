"""`harness run --dry-run`: what would be started, exactly."""

from __future__ import annotations

from world import World


def test_a_dry_run_spells_out_the_command(world: World) -> None:
    world.install("codex")
    answer = world.call(
        "run",
        "-a",
        "codex",
        "-p",
        "it's here",
        "-d",
        str(world.home),
        "--env",
        "MODE=test",
        "--dry-run",
        "--",
        "--config",
        "a b",
        "",
        "it's",
    )
    assert answer.code == 0
    assert answer.out == (
        f"Binary: {world.bin / 'codex'}\n"
        "Args:   exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox"
        " --config 'a b' '' 'it'\\''s' -\n"
        "Stdin:  'it'\\''s here'\n"
        "User env:\n"
        "  MODE=test\n"
        f"Cwd:    {world.home}\n"
    )
    assert world.logs() == []


def test_a_dry_run_counts_a_prompt_that_nobody_would_read_there(world: World) -> None:
    world.install("codex")
    (world.project / "long.txt").write_text("x" * 3000)
    assert "\nStdin:  3000 bytes\n" in world.call("run", "--prompt-file", "long.txt", "--dry-run").out


def test_a_dry_run_here_has_a_dot_for_its_directory(world: World) -> None:
    world.install("codex")
    assert world.call("run", "-p", "x", "--dry-run").out.endswith("\nCwd:    .\n")


def test_a_dry_run_without_the_program_fails_with_code_1(world: World) -> None:
    answer = world.call("run", "-a", "claude", "-p", "x", "--dry-run")
    assert (answer.code, answer.out) == (1, "")
    assert "agent binary not found: claude" in answer.err


def test_a_dry_run_shows_no_secret(world: World) -> None:
    world.install("codex")
    secret = "hunter2-hunter2-Hunter2"
    answer = world.call("run", "-p", "x", "--env", f"SERVICE_TOKEN={secret}", "--dry-run", "--", secret)
    assert secret not in answer.out
    assert "SERVICE_TOKEN=" in answer.out
