"""A made-up home with many sessions of Claude and Codex, and the tokens that a correct reader must find in it.

python tests/histories/corpus.py DIRECTORY [SESSIONS [BYTES_OF_A_SESSION]]

One session of Claude in twenty has a fork: a second file with the same messages, whose tokens count once.
"""

from __future__ import annotations

import json
import random
import sys
import uuid
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

WORDS = [
    "alpha",
    "bravo",
    "index",
    "parser",
    "token",
    "buffer",
    "widget",
    "service",
    "handler",
    "cache",
    "retry",
    "queue",
    "schema",
    "column",
]
MODELS = {"claude": ("claude-opus-4-5", "claude-haiku-4-5"), "codex": ("gpt-5", "gpt-5-codex")}
LAST_MS = 1_780_272_000_000
HALF_YEAR_MS = 180 * 86_400_000

Truth = Counter[tuple[str, str, str, str, str]]
"""Agent, model, day, project, class of tokens → count."""


def day_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"


class Corpus:
    def __init__(self, directory: Path, seed: int = 1, mean_bytes: int = 40_000) -> None:
        self.truth: Truth = Counter()
        self.sessions = 0
        self._directory = directory
        self._chosen = random.Random(seed)
        self._mean_bytes = mean_bytes
        self._text = " ".join(self._chosen.choice(WORDS) for _ in range(40_000))

    def fill(self, sessions: int) -> None:
        while self.sessions < sessions:
            self._claude() if self._chosen.random() < 0.6 else self._codex()

    def _id(self) -> str:
        return str(uuid.UUID(int=self._chosen.getrandbits(128), version=4))

    def _words(self, length: int) -> str:
        start = self._chosen.randrange(len(self._text) - length)
        return self._text[start : start + length]

    def _begin(self) -> tuple[int, str, int]:
        project = f"/home/user/project{self._chosen.randrange(40):02d}"
        size = max(5_000, int(self._chosen.lognormvariate(0, 0.9) * self._mean_bytes * 0.667))
        return LAST_MS - self._chosen.randrange(HALF_YEAR_MS), project, size

    def _note(self, agent: str, model: str, at_ms: int, project: str, counts: dict[str, int]) -> None:
        for name, count in counts.items():
            self.truth[agent, model, day_of(at_ms), project, name] += count

    def _claude(self) -> None:
        at_ms, project, size = self._begin()
        session_id, model = self._id(), self._chosen.choice(MODELS["claude"])
        lines: list[str] = []
        about = {"cwd": project, "sessionId": session_id, "version": "2.1.325", "isSidechain": False}

        def add(record: dict[str, Any]) -> None:
            nonlocal at_ms
            at_ms += self._chosen.randrange(50, 9_000)
            whole = {"parentUuid": None, **record, "uuid": self._id(), "timestamp": _iso(at_ms), **about}
            lines.append(json.dumps(whole, separators=(",", ":")))

        add({"type": "user", "message": {"role": "user", "content": f"Please {self._words(200)}"}})
        add({"type": "attachment", "attachment": {"type": "prompt_snapshot", "text": self._words(2_000)}})
        while sum(map(len, lines)) < size:
            call_id = f"toolu_{self._id()}"
            about_answer = (
                {"id": f"msg_{self._id()}", "role": "assistant", "model": model},
                f"req_{self._id()}",
            )
            used = {
                name: self._chosen.randrange(5, 2_000)
                for name in ("input", "output", "cache_read", "cache_write")
            }

            text = {"type": "text", "text": self._words(self._chosen.randrange(40, 700))}
            add(_answer(about_answer, text, {**used, "output": 1}, None))
            call = {
                "type": "tool_use",
                "id": call_id,
                "name": "Bash",
                "input": {"command": f"ls {self._words(5)}"},
            }
            add(_answer(about_answer, call, used, "tool_use"))
            self._note("claude", model, at_ms, project, used)
            result = {"type": "tool_result", "tool_use_id": call_id, "content": self._words(1_500)}
            add(
                {
                    "type": "user",
                    "message": {"role": "user", "content": [result]},
                    "toolUseResult": {"stdout": ""},
                }
            )
        folder = self._directory / ".claude/projects" / project.replace("/", "-")
        self._write(folder / f"{session_id}.jsonl", lines)
        if self._chosen.random() < 0.05:
            fork_id = self._id()
            self._write(folder / f"{fork_id}.jsonl", [line.replace(session_id, fork_id) for line in lines])

    def _codex(self) -> None:
        at_ms, project, size = self._begin()
        opening, thread_id, model = at_ms, self._id(), self._chosen.choice(MODELS["codex"])
        lines: list[str] = []
        totals = Counter[str]()

        def add(kind: str, payload: dict[str, Any]) -> None:
            nonlocal at_ms
            at_ms += self._chosen.randrange(50, 5_000)
            record = {"timestamp": _iso(at_ms), "ordinal": len(lines), "type": kind, "payload": payload}
            lines.append(json.dumps(record, separators=(",", ":")))

        add("session_meta", {"id": thread_id, "cwd": project, "cli_version": "0.90.0", "source": "cli"})
        add("turn_context", {"cwd": project, "model": model})
        prompt = f"Please {self._words(200)}"
        add("event_msg", {"type": "user_message", "message": prompt})
        add("response_item", _said("user", prompt))
        while sum(map(len, lines)) < size:
            words, call_id = self._words(self._chosen.randrange(40, 700)), f"call_{self._id()}"
            add("event_msg", {"type": "agent_message", "message": words})
            add("response_item", _said("assistant", words))
            call = {
                "type": "function_call",
                "name": "exec_command",
                "arguments": '{"cmd":"ls"}',
                "call_id": call_id,
            }
            add("response_item", call)
            result = {"type": "function_call_output", "call_id": call_id, "output": self._words(1_500)}
            add("response_item", result)
            cached, fresh, output = (self._chosen.randrange(20, 5_000) for _ in range(3))
            reasoning = output // 3
            totals.update(
                input_tokens=cached + fresh,
                cached_input_tokens=cached,
                output_tokens=output,
                reasoning_output_tokens=reasoning,
                total_tokens=cached + fresh + output,
            )
            add("event_msg", {"type": "token_count", "info": {"total_token_usage": dict(totals)}})
            counts = {
                "input": fresh,
                "output": output - reasoning,
                "cache_read": cached,
                "reasoning": reasoning,
            }
            self._note("codex", model, at_ms, project, counts)
        self._write_rollout(opening, thread_id, lines)

    def _write_rollout(self, opening: int, thread_id: str, lines: list[str]) -> None:
        day = datetime.fromtimestamp(opening / 1000, UTC)
        name = f"rollout-{day:%Y-%m-%dT%H-%M-%S}-{thread_id}.jsonl"
        self._write(self._directory / f".codex/sessions/{day:%Y/%m/%d}" / name, lines)

    def _write(self, path: Path, lines: list[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        self.sessions += 1


def _answer(
    about: tuple[dict[str, Any], str], block: dict[str, Any], used: dict[str, int], stop: str | None
) -> dict[str, Any]:
    """One line of an answer of Claude; its lines have the same ids."""
    usage = {
        "input_tokens": used["input"],
        "output_tokens": used["output"],
        "cache_read_input_tokens": used["cache_read"],
        "cache_creation_input_tokens": used["cache_write"],
    }
    message = {**about[0], "content": [block], "stop_reason": stop, "usage": usage}
    return {"type": "assistant", "message": message, "requestId": about[1]}


def _said(role: str, text: str) -> dict[str, Any]:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


if __name__ == "__main__":
    corpus = Corpus(Path(sys.argv[1]), mean_bytes=int(sys.argv[3]) if len(sys.argv) > 3 else 200_000)
    corpus.fill(int(sys.argv[2]) if len(sys.argv) > 2 else 1_000)
    print(f"{corpus.sessions} sessions")
