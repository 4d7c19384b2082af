"""Watch an agent mend a small project: it asks before it changes anything, and you see the difference and the cost.

Files, tools and commands are real, in a folder of their own. Only the model is a script, so that no key, no agent and no
network are needed. With --model a real one answers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap

from harness.cli.console import Console, can_answer, screen_width
from harness.config import cache_directory, load
from harness.errors import UsageError

SUMMARY = "see it work on a small project, without a key or an agent"
PROMPT = "The check of this project fails. Find out why and fix it."
SCRIPT = "scripted/demo-fix"
COMPARED_MODEL = "claude-sonnet-4-5"
"""What the tokens of the script would have cost: a model that most people know."""

_WIDEST = 100
INTRODUCTION = """\
Here is a small project with a mistake in it, and an agent that will find it. Its files and commands are real, in \
{folder}. {model} The agent asks before it runs or changes anything: {answers}"""
NEXT = """
Everything is in the log. Now try:
  {program} sessions show last --format activity   what it did to the machine
  {program} sessions replay last                   once more, with its timing
  {program} agents                                 which agents are installed here
  {program}                                        what to do next"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "let this one answer instead of the script (see `harness models`; local: a small one on this machine)"
    )
    parser.add_argument("-m", "--model", default="", metavar="NAME", help=help_text)
    parser.add_argument("-y", "--yes", action="store_true", help="answer all its questions with yes")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli.output import write_text

    if arguments.model and not arguments.yes and not can_answer():
        raise UsageError(
            "a real model asks before it runs commands, and nobody can answer here",
            hint="use a terminal, or --yes to answer everything with yes",
        )
    program = _program()  # before the PATH is made longer for the agent
    folder = _make_project()
    is_asked = can_answer() and not arguments.yes
    model = "A real model answers." if arguments.model else "Only the model is a script."
    answers = "you answer." if is_asked else "here each answer is yes."
    introduction = INTRODUCTION.format(folder=_shown(folder), model=model, answers=answers)
    width = min(_WIDEST, screen_width(os.environ))
    write_text(textwrap.fill(introduction, width, break_long_words=False, break_on_hyphens=False) + "\n")
    code = _let_it_work(folder, arguments.model, is_asked=is_asked)
    if code == 0:
        code = _harness("sessions", "diff", "last")
    if code == 0:
        write_text(("" if arguments.model else _cost(console)) + NEXT.format(program=program) + "\n")
    return code


def _program() -> str:
    """What to type here: the program of a clone is not on the PATH."""
    own = os.path.join(os.path.dirname(sys.executable), "harness")
    if shutil.which("harness") or not os.access(own, os.X_OK):
        return "harness"
    from_here = os.path.relpath(own)
    return own if from_here.startswith(os.pardir) else from_here


def _make_project() -> str:
    """The project in the cache folder, as it was before anything was mended."""
    from importlib.resources import files

    from harness.log.private_files import make_private_directory

    folder = os.path.join(cache_directory(), "demo", "invoices")
    shutil.rmtree(folder, ignore_errors=True)
    make_private_directory(folder)
    for source in files("harness.cli.demonstration").joinpath("project").iterdir():
        name = source.name.removesuffix(".txt")
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(source.read_text(encoding="utf-8"))
    return folder


def _let_it_work(folder: str, model: str, *, is_asked: bool) -> int:
    from harness.cli.main import main

    if model == "local":
        if code := _harness("models", "fetch", "local"):
            return code
        model = "local/smollm2"
    words = ["run", "--agent", "native", "--model", model or SCRIPT, "--permissions", "ask", "--cwd", folder]
    if not is_asked:
        words += ["--on-ask", "allow"]
    # Its check is a Python program, and the only Python here may be the one that runs this.
    os.environ["PATH"] = os.pathsep.join(
        (os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable))
    )
    return main([*words, "--name", "demonstration", "--format", "pretty", "--prompt", PROMPT])


def _harness(*words: str) -> int:
    """Carry out another command, and show it first: it can be copied."""
    from harness.cli.main import main
    from harness.cli.output import write_text

    write_text(f"\n$ harness {' '.join(words)}\n\n")
    return main(words)


def _cost(console: Console) -> str:
    """What the tokens of the script would have cost, had a model said the same."""
    from harness.cli import preferences
    from harness.formatting.amounts import cost
    from harness.log.store import Query
    from harness.usage import prices

    store = preferences.open_store(preferences.load(console))
    (session,) = store.find(Query(limit=1))
    usd = prices.load(load(os.getcwd())).cost_usd(COMPARED_MODEL, store.usage(session.session_id))
    if usd is None:
        return ""
    return (
        f"\nA script played the model, so this cost nothing.\n{COMPARED_MODEL} would have cost {cost(usd)}.\n"
    )


def _shown(folder: str) -> str:
    home = os.path.expanduser("~")
    return f"~{folder[len(home) :]}" if folder.startswith(home + os.sep) else folder
