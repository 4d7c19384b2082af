"""A REPL of its own process: what code prints, keeps, calls and breaks."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from harness.native.rlm.repl import CodeResult
from played_rlm import Bench, on_bench, turns_of


def test_variables_functions_and_imports_stay_from_turn_to_turn() -> None:
    *_, last = turns_of(
        "import re\nx = 20", "def twice(n):\n    return 2 * n", "print(twice(x), re.sub('a', 'b', 'a'))"
    )
    assert last.stdout == "40 b\n"


def test_everything_that_is_printed_is_stored_in_order() -> None:
    code = "import sys\nprint('one', 2, [3])\nprint('oops', file=sys.stderr)\nprint('four', end='')"
    [turn] = turns_of(code)
    assert turn == CodeResult(
        stdout="one 2 [3]\noops\nfour", error="", final=None, duration_ms=turn.duration_ms, is_truncated=False
    )


def test_what_is_printed_is_shown_while_the_code_still_runs_and_says_where_to() -> None:
    async def use(bench: Bench) -> None:
        await bench.run("import sys\nprint('a')\nllm_query('now')\nprint('b', file=sys.stderr)")
        assert bench.shown == [("stdout", "a\n"), ("stderr", "b\n")]

    on_bench(use)


def test_output_is_cut_with_a_notice() -> None:
    [turn, short] = turns_of("print('x' * 50)", "print('x' * 9)", most_characters=10)
    assert (turn.stdout, turn.is_truncated) == ("x" * 10 + "\n...[truncated]", True)
    assert (short.stdout, short.is_truncated) == ("x" * 9 + "\n", False)


def test_a_flood_of_output_is_neither_stored_nor_shown() -> None:
    async def use(bench: Bench) -> None:
        turn = await bench.run("for i in range(30_000): print('a line that nobody will read', i)")
        assert len(turn.stdout) == 4000 + len("\n...[truncated]")
        assert sum(len(text) for _, text in bench.shown) == 4000

    on_bench(use)


def test_a_final_answer_is_a_text() -> None:
    turns = turns_of("FINAL('text')", "FINAL(42)", "FINAL([1, 'a'])", "FINAL(None)")
    assert [turn.final for turn in turns] == ["text", "42", "[1, 'a']", "None"]


def test_the_code_continues_after_its_final_answer() -> None:
    [turn] = turns_of("FINAL('done')\nprint('still here')")
    assert (turn.final, turn.stdout) == ("done", "still here\n")


def test_code_that_fails_after_its_final_answer_has_given_none() -> None:
    [failed, after] = turns_of("FINAL('done')\n1 / 0", "x = 1")
    assert failed.final is None
    assert "ZeroDivisionError" in failed.error
    assert after.final is None


def test_a_syntax_error_is_reported_with_its_line() -> None:
    [turn, after] = turns_of("x = = 1", "print('fine')")
    assert "SyntaxError" in turn.error
    assert "x = = 1" in turn.error
    assert after.stdout == "fine\n"


def test_an_error_is_reported_with_the_models_own_lines_and_what_was_printed_before_it() -> None:
    [turn, after] = turns_of("def f():\n    return 1 / 0\nprint('before')\nf()", "print('after')")
    assert turn.stdout == "before\n"
    assert without_carets(turn.error) == (
        "Traceback (most recent call last):\n"
        '  File "<turn 1>", line 4, in <module>\n    f()\n'
        '  File "<turn 1>", line 2, in f\n    return 1 / 0\n'
        "ZeroDivisionError: division by zero"
    )
    assert after.stdout == "after\n"


def test_an_endless_traceback_is_cut() -> None:
    [turn] = turns_of("raise ValueError('x' * 100_000)", most_characters=500)
    assert len(turn.error) == 500 + len("\n...[truncated]")


def test_code_cannot_leave_the_repl_by_an_exception() -> None:
    turns = turns_of(
        "import sys\nsys.exit()", "raise KeyboardInterrupt", "raise BaseException", "print('here')"
    )
    assert all(turn.error for turn in turns[:-1])
    assert turns[-1].stdout == "here\n"


def test_the_context_is_a_text_of_any_characters() -> None:
    text = "Grüße, 世界 \U0001f600\r\n\x00 end"
    [turn] = turns_of("print(repr(context) == " + ascii(ascii(text)) + " or ascii(context))", context=text)
    assert turn.stdout == ascii(text) + "\n"


def test_ten_megabytes_are_searched() -> None:
    context = "".join(f"line {number} of many\n" for number in range(520_000)) + "the needle is 4711"
    assert len(context) > 10_000_000
    [turn] = turns_of(
        "import re\nprint(len(context), re.search(r'needle is (\\d+)', context)[1], context.count('\\n'))",
        context=context,
    )
    assert turn.stdout == f"{len(context)} 4711 520000\n"


def test_a_call_is_answered_by_the_owner_of_the_repl() -> None:
    async def use(bench: Bench) -> None:
        turn = await bench.run(
            "print(llm_query('who?', 'ctx'), llm_query('what?', {'a': [1]}), llm_query(7))"
        )
        assert turn.stdout == "<who?> <what?> <7>\n"
        assert bench.calls == [
            {"prompt": "who?", "context": "ctx"},
            {"prompt": "what?", "context": '{"a": [1]}'},
            {"prompt": "7", "context": None},
        ]

    on_bench(use)


def _gathering(count: int) -> tuple[Any, list[str]]:
    """A function that answers only when it was asked so often at once."""
    waiting: list[str] = []
    everybody = asyncio.Event()

    async def answer(arguments: dict[str, Any]) -> str:
        waiting.append(arguments["prompt"])
        if len(waiting) == count:
            everybody.set()
        await everybody.wait()
        return f"<{arguments['prompt']}>"

    return answer, waiting


_MANY = "print(llm_query_many(['a', 'b', 'c'], ['x', 'y', 'z']))"
_THREADS = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(3) as pool:
    print(list(pool.map(llm_query, "abc")))
"""


@pytest.mark.parametrize("code", [_MANY, _THREADS], ids=["many", "threads"])
def test_calls_that_are_made_together_wait_together(code: str) -> None:
    answer, waiting = _gathering(3)
    [turn] = turns_of(code, functions={"llm_query": answer})
    assert turn.stdout == "['<a>', '<b>', '<c>']\n"
    assert sorted(waiting) == ["a", "b", "c"]


def test_one_context_may_be_given_to_many_queries() -> None:
    async def use(bench: Bench) -> None:
        await bench.run("llm_query_many((q for q in 'ab'), 'same')")
        assert [call["context"] for call in bench.calls] == ["same", "same"]
        turn = await bench.run("llm_query_many(['a', 'b'], ['only one'])")
        assert "2 prompts but 1 contexts" in turn.error

    on_bench(use)


def without_carets(traceback: str) -> str:
    """Which lines have marks below them depends on the version of Python."""
    return re.sub(r"\n *[~^]+(?=\n)", "", traceback)


async def _picky(arguments: dict[str, Any]) -> str:
    if arguments["prompt"] == "bad":
        raise ValueError("no such thing")
    return "good answer"


def test_a_call_that_fails_is_an_exception_in_the_code() -> None:
    [caught, uncaught] = turns_of(
        "try:\n    llm_query('bad')\nexcept Exception as e:\n    print('caught:', e)",
        "llm_query('bad')",
        functions={"llm_query": _picky},
    )
    assert caught.stdout == "caught: no such thing\n"
    assert without_carets(uncaught.error) == (
        'Traceback (most recent call last):\n  File "<turn 2>", line 1, in <module>\n'
        "    llm_query('bad')\nCallError: no such thing"
    )


def test_of_many_queries_those_that_succeeded_are_not_lost() -> None:
    [turn] = turns_of(
        "try:\n    llm_query_many(['bad', 'x'])\nexcept Exception as e:\n    print(e)\n    print(e.results)",
        functions={"llm_query": _picky},
    )
    assert "1 of 2 queries failed, the first with: no such thing" in turn.stdout
    assert turn.stdout.endswith("[None, 'good answer']\n")


def test_a_function_that_is_not_there_says_so() -> None:
    [turn] = turns_of("exec('ls')", functions={})
    assert turn.error.endswith("CallError: exec is not available here")


async def _command(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"stdout": f"{arguments}\n", "stderr": "", "exit_code": 0}


def test_the_result_of_a_command_is_read_by_name_or_by_key() -> None:
    [turn] = turns_of(
        "r = exec('ls', timeout=3)\nprint(r.stdout, r['exit_code'], r.stderr == '')",
        functions={"exec": _command},
    )
    assert turn.stdout == "{'command': 'ls', 'timeout': 3}\n 0 True\n"


def test_the_functions_are_there_again_after_code_has_overwritten_them() -> None:
    *_, turn = turns_of("llm_query = FINAL = 1", "FINAL('yes')")
    assert turn.final == "yes"


def test_a_call_that_outlives_its_turn_is_given_up() -> None:
    given_up = []

    async def hang(arguments: dict[str, Any]) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.append(arguments["prompt"])
            raise
        return ""

    async def use(bench: Bench) -> None:
        turn = await bench.run(
            "import threading, time\n"
            "threading.Thread(target=llm_query, args=('never',), daemon=True).start()\n"
            "time.sleep(0.05)"
        )
        assert turn.error == ""
        assert given_up == ["never"]
        assert (await bench.run("print('next')")).stdout == "next\n"

    on_bench(use, functions={"llm_query": hang})


def test_a_repl_can_be_closed_while_it_waits_and_the_answer_is_stopped() -> None:
    asked = asyncio.Event()
    stopped = []

    async def hang(_arguments: dict[str, Any]) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    async def use(bench: Bench) -> None:
        running = asyncio.create_task(bench.run("llm_query('x')"))
        await asked.wait()
        running.cancel()
        await asyncio.wait([running])
        await bench.repl.close()
        assert stopped == [True]

    on_bench(use, functions={"llm_query": hang})


def test_code_that_reads_input_gets_an_error_at_once() -> None:
    asked, after = turns_of("name = input('who? ')", "import sys\nprint(repr(sys.stdin.read()))")
    assert asked.stdout == "who? "
    assert asked.error.endswith("EOFError: EOF when reading a line")
    assert after.stdout == "''\n"
