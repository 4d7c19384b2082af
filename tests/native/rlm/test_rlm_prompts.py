"""What a recursive language model is given, and which of its answers can be run."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.native.rlm.exec_tool import error_feedback, extract, output_feedback, system_prompt
from harness.native.rlm.options import RlmArguments, parse


@pytest.mark.parametrize(
    "answer",
    [
        "```python\nprint(1)\n```",
        "```py\nprint(1)\n```\n",
        "```repl\nprint(1)\n```\n\n  \n",
        "Let me look.\n\n```Python\nprint(1)\n```",
        "First some data:\n```json\n[1]\n```\nThen:\n```python\nprint(1)\n```",
        "````python\nprint(1)\n````",
        "```python title=x\r\nprint(1)\r\n```\r\n",
    ],
)
def test_the_one_block_of_python_is_taken(answer: str) -> None:
    assert extract(answer) == ("print(1)", "")


def test_fences_inside_of_code_are_code() -> None:
    inside = 'text = """\n```python\nnot code\n"""\nprint("```")'
    assert extract(f"````python\n{inside}\n```\n````").code == f"{inside}\n```"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "there is no block of Python"),
        ("The answer is 4.", "there is no block of Python"),
        ("```\nprint(1)\n```", "there is no block of Python"),
        ("```js\nprint(1)\n```", "there is no block of Python"),
        ("`print(1)`", "there is no block of Python"),
        ("```python\na\n```\n```python\nb\n```", "there are 2 blocks of Python"),
        ("```python\na\n```\nThat should do it.", "there is text after the block"),
        ("```python\na\n```\n```json\n{}\n```", "there is text after the block"),
        ("```python\nprint(1)", "does not end with a line of ```"),
    ],
)
def test_anything_else_is_a_problem_that_can_be_fixed(answer: str, problem: str) -> None:
    extraction = extract(answer)
    assert extraction.code == ""
    assert problem in extraction.problem


def test_feedback_reports_what_was_printed_and_what_went_wrong() -> None:
    assert output_feedback("1\n2\n", "") == (
        "<harness:repl_output>\n<stdout>\n1\n2\n</stdout>\n</harness:repl_output>"
    )
    assert output_feedback("1\n", "E: x") == (
        "<harness:repl_output>\n<stdout>\n1\n</stdout>\n<error>\nE: x\n</error>\n</harness:repl_output>"
    )
    assert output_feedback("", "") == "<harness:repl_output>\n(no output)\n</harness:repl_output>"
    assert error_feedback("no code") == "<harness:error>\nno code\n</harness:error>"


def _prompt(context: str, *, is_recursive: bool = True) -> str:
    return system_prompt(
        context,
        prefix_characters=10,
        most_characters=4000,
        prompt_budget=99,
        exec_timeout_s=10.0,
        is_recursive=is_recursive,
    )


def test_the_prompt_reveals_length_and_beginning_of_the_context_and_nothing_else() -> None:
    text = _prompt("0123456789" + "SECRET" * 1000)
    assert "a str of 6010 characters" in text
    assert "<context_prefix>\n0123456789\n</context_prefix>" in text
    assert "SECRET" not in text


def test_braces_in_a_context_are_braces() -> None:
    assert "{length}" in _prompt("{length}")


def test_the_prompt_says_what_a_query_can_read() -> None:
    assert "a REPL of its own" in _prompt("x")
    assert "give it no more than a model can read at once" in _prompt("x", is_recursive=False)


def test_what_is_said_after_the_dashes_is_understood() -> None:
    words = "--max-depth 1 --sub-model scripted/x --exec-timeout=2.5 --time-limit 30 --memory-limit-mb 64"
    assert parse([*words.split(), "--max-output", "100", "--unconfined-repl"]) == RlmArguments(
        max_depth=1,
        sub_model="scripted/x",
        exec_timeout_s=2.5,
        time_limit_s=30.0,
        memory_limit_mb=64,
        max_output=100,
        is_unconfined=True,
    )
    assert parse([]) == RlmArguments()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--deep 3", "knows no --deep"),
        ("--max-depth", "--max-depth needs a value"),
        ("--max-depth many", "--max-depth does not take 'many'"),
        ("--max-depth -1", "--max-depth does not take '-1'"),
        ("--max-depth 99", "--max-depth does not take '99'"),
        ("--time-limit 0", "--time-limit does not take '0'"),
        ("--time-limit nan", "--time-limit does not take 'nan'"),
        ("--max-output 0", "--max-output does not take '0'"),
        ("--sub-model=", "--sub-model does not take ''"),
        ("--unconfined-repl=no", "--unconfined-repl takes no value"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(words.split())
    assert message in raised.value.message
