"""How well the built-in agent does small real tasks, through `harness run` and through `harness chat`.

usage: python benchmarks/agent/run.py [MODEL] [--repeat N] [--task NAME]...

With a model: what it passes, in how many steps, with how many tokens, how much of them from the provider's cache, and which
calls failed. Without one the scripts of each task are played: the right solution must pass its check, the wrong one must
not, through both doors; that proves the tools and the checks, and says nothing about a model.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from stand_in import stand_in

from tasks import TASKS, AgentTask, Turn

DOORS = ("run", "chat")
LONGEST_S = 900
WINDOW = 16_000
_GIT = ("git", "-c", "user.name=me", "-c", "user.email=me@localhost")


class Attempt(NamedTuple):
    is_passed: bool
    steps: int
    read_tokens: int
    cached_tokens: int
    written_tokens: int
    failed_calls: Counter[str]
    compactions: int = 0
    trouble: str = ""


def attempt(
    task: AgentTask, door: str, model: str, home: Path, more_environ: Mapping[str, str] | None = None
) -> Attempt:
    """One try in a folder and a home of its own; the check is run by another process."""
    work = home / "work"
    prepare(task, work)
    environ = {**os.environ, "HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")}
    environ |= {
        name: str(home / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
    }
    environ |= more_environ or {}
    prompts = [task.prompt, *task.more_prompts]
    words = [sys.executable, "-m", "harness", door, "--agent", "native", "--model", model, "--cwd", str(work)]
    words += ["--permissions", "full-access", *task.options]
    if door == "chat":
        calls = [(words, "".join(f"{prompt}\n" for prompt in prompts))]
    else:  # each message is a process, which continues the one before
        words += ["--format", "ndjson"]
        calls = [
            ([*words, "--prompt", prompt, *(["--continue"] if number else [])], "")
            for number, prompt in enumerate(prompts)
        ]
    trouble = ""
    for line, given in calls:
        trouble = trouble or carried_out(line, given, environ)
    checked = subprocess.run(
        [sys.executable, "-c", task.check], cwd=work, capture_output=True, text=True, timeout=60, check=False
    )
    return counted(list(logged(home)), is_passed=checked.returncode == 0, trouble=trouble)


def carried_out(words: Sequence[str], given: str, environ: Mapping[str, str]) -> str:
    """Why it failed; empty if it did not."""
    try:
        ended = subprocess.run(
            words, input=given, env=environ, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {LONGEST_S} s"
    return ended.stderr.strip()[-300:] if ended.returncode else ""


def prepare(task: AgentTask, work: Path) -> None:
    write(work, task.files)
    (work.parent / ".gitconfig").write_text("[user]\n\tname = me\n\temail = me@localhost\n")
    if shutil.which("git"):
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Begin")):
            subprocess.run([*_GIT, *words], cwd=work, check=True, capture_output=True)
    write(work, task.dirty)


def write(work: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def logged(home: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((home / "xdg_data_home").glob("harness/sessions/*.ndjson")):
        for line in path.read_bytes().split(b"\n"):
            if line:
                yield json.loads(line)


def counted(events: Sequence[dict[str, Any]], *, is_passed: bool, trouble: str) -> Attempt:
    usages = [event.get("usage") or {} for event in events if event["type"] == "UsageDelta"]
    cached = sum(usage.get("cache_read") or 0 for usage in usages)
    read = cached + sum((usage.get("input") or 0) + (usage.get("cache_write") or 0) for usage in usages)
    failed = [
        event["tool_name"] for event in events if event["type"] == "ToolEnd" and event.get("success") is False
    ]
    return Attempt(
        is_passed=is_passed,
        steps=sum(event["type"] == "StepStart" for event in events),
        read_tokens=read,
        cached_tokens=cached,
        written_tokens=sum(usage.get("output") or 0 for usage in usages),
        failed_calls=Counter(failed),
        compactions=sum(event["type"] == "Compacted" for event in events),
        trouble=trouble,
    )


def measure(tasks: Sequence[AgentTask], model: str, repeat: int) -> int:
    print(
        f"{'task':<24} {'door':<5} {'passed':>8} {'steps':>6} {'read':>9} {'cached':>7} {'written':>8} {'summed':>6}  failed calls"
    )
    passed = total = 0
    for task in tasks:
        for door in DOORS:
            tries = [once(task, door, model) for _ in range(repeat)]
            good = sum(one.is_passed for one in tries)
            passed, total = passed + good, total + repeat
            read, cached = sum(one.read_tokens for one in tries), sum(one.cached_tokens for one in tries)
            failed = sum((one.failed_calls for one in tries), Counter[str]())
            share = f"{100 * cached / read:.0f} %" if read else "-"
            print(
                f"{task.name:<24} {door:<5} {good:>3} of {repeat:<2} {sum(one.steps for one in tries) / repeat:>6.1f} "
                f"{read / repeat:>9.0f} {share:>7} {sum(one.written_tokens for one in tries) / repeat:>8.0f} "
                f"{sum(one.compactions for one in tries) / repeat:>6.1f}  "
                + ", ".join(f"{name} {count}" for name, count in failed.items()),
                flush=True,
            )
            for trouble in {one.trouble for one in tries if one.trouble}:
                print(f"{'':<24} {trouble}")
    print(f"pass@1: {passed} of {total}, {100 * passed / max(1, total):.0f} %")
    return 0


def once(task: AgentTask, door: str, model: str) -> Attempt:
    with tempfile.TemporaryDirectory(prefix="agent-") as home:
        return attempt(task, door, model, Path(home))


def prove(tasks: Sequence[AgentTask], doors: Sequence[str] = DOORS) -> list[str]:
    """Play the scripts; what is not as it must be."""
    wrong = []
    for task in tasks:
        for turns, must_pass in ((task.good, True), (task.wrong, False)):
            for door in doors if turns else ():
                found = played(task, door, turns)
                if found.is_passed != must_pass:
                    which = "right" if must_pass else "wrong"
                    wrong.append(
                        f"{task.name}, {door}: the {which} solution {'passed' if found.is_passed else 'failed'} {found.trouble}"
                    )
    return wrong


def prove_long(task: AgentTask, doors: Sequence[str] = DOORS) -> list[str]:
    """Play the conversation that is longer than the window; what is not as it must be."""
    wrong = []
    for door in doors:
        with stand_in(WINDOW) as server, tempfile.TemporaryDirectory(prefix="agent-") as home:
            base = f"http://127.0.0.1:{server.server_address[1]}/v1"
            environ = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": base}
            found = attempt(task, door, "openai-chat/stand-in", Path(home), environ)
        print(
            f"{task.name}, {door}: {found.steps} steps, {found.read_tokens:,} tokens read, "
            f"{100 * found.cached_tokens / max(1, found.read_tokens):.0f} % of them as before, {found.compactions} compactions, "
            f"longest request {server.longest:,} of {server.window:,}, {server.refused} refused: "
            + ("what was said first is known at the end" if found.is_passed else "it has forgotten"),
            flush=True,
        )
        if not (found.is_passed and found.compactions and not server.refused) or found.trouble:
            wrong.append(f"{task.name}, {door}: {found}")
    return wrong


def played(task: AgentTask, door: str, turns: Sequence[Turn]) -> Attempt:
    with tempfile.TemporaryDirectory(prefix="agent-") as home:
        script = Path(home) / "script.json"
        script.write_text(json.dumps({"turns": list(turns)}))
        return attempt(task, door, f"scripted/{script}", Path(home))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--task", action="append", default=[])
    given = parser.parse_args()
    tasks = [task for task in TASKS if not given.task or task.name in given.task]
    if given.model:
        return measure(tasks, given.model, given.repeat)
    wrong = prove(tasks) + [line for task in tasks if task.more_prompts for line in prove_long(task)]
    print(
        "\n".join(wrong)
        or f"{len(tasks)} tasks: every right solution passes its check, every wrong one fails, in run and chat"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
