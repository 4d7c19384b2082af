"""`harness run --dry-run`: what would be started, exactly."""

from __future__ import annotations

from cli_machine import CliMachine


def test_a_dry_run_spells_out_the_command(cli: CliMachine) -> None:
    cli.install("codex")
    answer = cli.call(
        "run",
        "-a",
        "codex",
        "-p",
        "it's here",
        "-d",
        str(cli.home),
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
        f"Binary: {cli.bin / 'codex'}\n"
        "Args:   exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox"
        " --config 'a b' '' 'it'\\''s' -\n"
        "Stdin:  'it'\\''s here'\n"
        "User env:\n"
        "  MODE=test\n"
        f"Cwd:    {cli.home}\n"
    )
    assert cli.logs() == []


def test_a_dry_run_counts_a_long_prompt(cli: CliMachine) -> None:
    cli.install("codex")
    (cli.project / "long.txt").write_text("x" * 3000)
    assert "\nStdin:  3000 bytes\n" in cli.call("run", "--prompt-file", "long.txt", "--dry-run").out


def test_a_dry_run_here_has_a_dot_for_its_directory(cli: CliMachine) -> None:
    cli.install("codex")
    assert cli.call("run", "-p", "x", "--dry-run").out.endswith("\nCwd:    .\n")


def test_a_dry_run_without_the_program_fails_with_code_1(cli: CliMachine) -> None:
    answer = cli.call("run", "-a", "claude", "-p", "x", "--dry-run")
    assert (answer.code, answer.out) == (1, "")
    assert "agent binary not found: claude" in answer.err


def test_a_dry_run_shows_no_secret(cli: CliMachine) -> None:
    cli.install("codex")
    secret = "hunter2-hunter2-Hunter2"
    answer = cli.call("run", "-p", "x", "--env", f"SERVICE_TOKEN={secret}", "--dry-run", "--", secret)
    assert secret not in answer.out
    assert "SERVICE_TOKEN=" in answer.out
