"""A question about a log of 10 MB, which no model can read: a recursive language model writes code that looks at it.

python examples/rlm_log.py [--model provider/model] [--log FILE]      (without a model: a script answers)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import harness
from harness.events import ReplInput, ReplOutput

QUESTION = "Which customers saw errors, how often, and what did they have in common?"


def write_log(path: Path) -> None:
    """150,000 requests, of which three have failed."""
    with path.open("w", encoding="utf-8") as log:
        for number in range(150_000):
            status = 500 if number in (17_000, 80_500, 149_001) else 200
            log.write(
                f"2026-11-19 request={number} customer=c{number % 500} path=/cart status={status} ms=12\n"
            )


def ask(model: str, log: str) -> int:
    limits = harness.Limits(max_turns=12, max_budget_usd=1, timeout_s=600)
    run = harness.start(
        harness.Request(agent="rlm", prompt=QUESTION, model=model, context=log, limits=limits),
        store=harness.MemoryStore(),
    )
    for event in run:
        if isinstance(event, ReplInput):
            print(f"--- code of round {event.iteration}\n{event.code.strip()}")
        elif isinstance(event, ReplOutput):
            print(f"--- it printed\n{event.stdout.strip()[:2000]}")
    result = run.wait()
    print(result.text if result.success else f"{result.outcome}: {result.stop_reason}")
    return 0 if result.success else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=f"scripted/{Path(__file__).parent / 'rlm_model.toml'}")
    parser.add_argument("--log", default="")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.log or f"{folder}/server.log"
        if not chosen.log:
            write_log(Path(path))
        sys.exit(ask(chosen.model, path))
