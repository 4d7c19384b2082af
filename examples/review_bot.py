"""A review of a diff, as data: git diff | python examples/review_bot.py [--model provider/model]"""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from harness import Harness, Limits, Mode


class Finding(msgspec.Struct):
    path: str
    line: int
    problem: str


class Review(msgspec.Struct):
    findings: list[Finding]


async def review(diff: str, model: str) -> int:
    mode = Mode(id="review", default_model_id=model, instructions="Review the diff; name real faults only.")
    async with Harness(id="review", modes=[mode], limits=Limits(max_turns=5, timeout_s=300)) as harness:
        outcome = await harness.send_message(content=diff, output=Review)
    if outcome.output is None:
        print(outcome.error, file=sys.stderr)
        return 2
    for finding in outcome.output.findings:
        print(f"{finding.path}:{finding.line}: {finding.problem}")
    return 1 if outcome.output.findings else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="anthropic/claude-sonnet-4-6")
    sys.exit(asyncio.run(review(sys.stdin.read(), parser.parse_args().model)))
