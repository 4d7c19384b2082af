"""Code in a REPL can compute and nothing else, however it tries, and cannot use more than it is given."""

from __future__ import annotations

import asyncio
import os
import textwrap
from pathlib import Path

import pytest

from harness.errors import SpawnFailed
from harness.native.rlm import repl as repl_module
from played_rlm import Bench, on_bench, turns_of

pytestmark = pytest.mark.needs_linux_calls("only Linux can confine a REPL")

ESCAPES = {
    "reading a file": "open('/etc/passwd').read()",
    "reading its own program": "open('/proc/self/maps').read()",
    "listing a directory": "import os; os.listdir('/')",
    "asking whether a file exists": "import os; os.stat('/etc/passwd')",
    "writing a file": "open('{folder}/new', 'w')",
    "removing a file": "import os; os.remove('{folder}/kept')",
    "changing the mode of a file": "import os; os.chmod('{folder}/kept', 0)",
    "going somewhere else": "import os; os.chdir('/tmp')",
    "starting a program": "import os; os.execv('/bin/sh', ['sh', '-c', 'exit'])",
    "starting a program beside it": "import os; os.posix_spawn('/bin/sh', ['sh'], dict())",
    "starting a process": "import os; os.fork()",
    "using a shell": "import os; assert os.system('true') == 0, 'refused'",
    "signalling the parent": "import os; os.kill(os.getppid(), 0)",
    "signalling everybody": "import os; os.kill(-1, 0)",
    "importing sockets": "import socket",
    "importing a way around": "import ctypes",
    "importing processes": "import subprocess",
    "finding what was imported before": "import sys; sys.modules['ctypes'].CDLL('libc.so.6')",
    "opening a pipe": "import os; os.pipe()",
    "raising its limits": "import resource",
    "leaving its process group": "import os; os.setsid()",
    "becoming somebody else": "import os; os.setuid(1)",
}


def test_code_cannot_reach_out_in_any_of_many_ways(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    codes = [code.replace("{folder}", str(tmp_path)) for code in ESCAPES.values()]
    *turns, last = turns_of(*codes, "print('still confined')")
    assert [how for how, turn in zip(ESCAPES, turns, strict=True) if not turn.error] == []
    assert last.stdout == "still confined\n"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "kept"


def test_bare_system_calls_are_refused_as_well() -> None:
    """With ctypes at hand, as code that breaks the interpreter would have it."""
    code = """
        import gc
        ctypes = next(one for one in gc.get_objects() if isinstance(one, type(gc)) and one.__name__ == "ctypes")
        libc = ctypes.CDLL(None, use_errno=True)
        calls = {"socket": (41, 2, 1, 0), "open": (2, b"/etc/passwd", 0), "fork": (57,), "ptrace": (101, 0, 0),
                 "io_uring": (425, 1, 0), "unshare": (272, 0x10000000), "x32 open": (0x40000002, b"/etc/passwd", 0)}
        for name, call in calls.items():
            print(name, libc.syscall(*call), ctypes.get_errno())
    """
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of another machine")
    [turn] = turns_of(textwrap.dedent(code))
    answers = [line.rsplit(" ", 2) for line in turn.stdout.strip().split("\n")]
    assert [(name, number) for name, *_, number in answers] == [
        (name, "1") for name in ("socket", "open", "fork", "ptrace", "io_uring", "unshare", "x32 open")
    ]
    assert {result for _, result, _ in answers} == {"-1"}


def test_nothing_of_our_environment_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")
    [turn] = turns_of("import os\nprint(sorted(os.environ))")
    assert "API_KEY" not in turn.stdout
    assert set(turn.stdout.strip("[]\n").replace("'", "").split(", ")) <= {"TZ", "LC_CTYPE"}


def test_what_computes_can_be_imported() -> None:
    names = (
        "re json math collections itertools functools statistics datetime csv random string textwrap decimal"
    )
    [turn] = turns_of(
        f"import {', '.join(names.split())}\nprint(statistics.mean([1, 2]), datetime.date.today().year > 2000)"
    )
    assert (turn.stdout, turn.error) == ("1.5 True\n", "")


def test_a_module_that_is_not_there_is_named() -> None:
    [turn] = turns_of("import numpy")
    assert "No module named 'numpy'" in turn.error


@pytest.mark.parametrize("code", ["x = 'a' * 10**11", "x = []\nwhile True: x.append(bytearray(10**7))"])
def test_a_memory_bomb_is_an_error_that_the_repl_survives(code: str) -> None:
    [turn, after] = turns_of(f"kept = 1\n{code}", "x = None\nprint(kept)", memory_bytes=256 * 1024 * 1024)
    assert "MemoryError" in turn.error
    assert after.stdout == "1\n"


def test_an_endless_loop_is_interrupted_and_variables_stay() -> None:
    [turn, after] = turns_of("n = 0\nprint('going')\nwhile True: n += 1", "print(n > 0)", time_s=0.5)
    assert turn.stdout == "going\n"
    assert turn.error.startswith("TimeLimit: ")
    assert after.stdout == "True\n"


def test_code_that_will_not_stop_is_ended_and_a_new_repl_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repl_module, "_GRACE_S", 0.2)
    stubborn = "x = 1\nimport time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass"
    [turn, after] = turns_of(stubborn, "print(context, 'x' in globals())", context="here", time_s=0.5)
    assert turn.error.startswith("the interpreter has ended: it did not stop after 0.5 s and was ended; ")
    assert "all other variables are gone" in turn.error
    assert after.stdout == "here False\n"


def test_waiting_for_an_answer_is_not_counted() -> None:
    async def slow(_arguments: dict[str, object]) -> str:
        await asyncio.sleep(1.0)
        return "at last"

    [turn] = turns_of("print(llm_query('x'))", functions={"llm_query": slow}, time_s=0.8)
    assert (turn.stdout, turn.error) == ("at last\n", "")


def test_an_interpreter_that_dies_is_replaced() -> None:
    [turn, after] = turns_of("import os\nos._exit(3)", "print(context)", context="again")
    assert turn.error.startswith("the interpreter has ended: with exit code 3")
    assert after.stdout == "again\n"


def test_a_program_that_breaks_the_rules_is_ended() -> None:
    """No JSON; too long; of no known kind; not even an object."""
    forged = ["\\0\\0\\0\\5nosne", "\\xff\\xff\\xff\\xff", '\\0\\0\\0\\x0e{"type":"what"}', "\\0\\0\\0\\2[]"]
    write = "import os\nfor fd in range(3, 20):\n    try: os.write(fd, b{!r})\n    except OSError: pass\nwhile True: pass"
    *turns, last = turns_of(*(write.replace("{!r}", f"'{frame}'") for frame in forged), "print('new')")
    assert ["it broke the rules and was ended" in turn.error for turn in turns] == [True] * 4
    assert last.stdout == "new\n"


def test_closing_ends_the_process() -> None:
    async def use(bench: Bench) -> int:
        turn = await bench.run("import os\nprint(os.getpid())")
        running = asyncio.create_task(bench.run("while True: pass"))
        await asyncio.sleep(0.05)
        running.cancel()
        await bench.repl.close()
        return int(turn.stdout)

    pid = on_bench(use)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_without_confinement_nothing_runs_unless_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system whose kernel refuses."""
    refusing = "import sys; sys.path.insert(0, {!r}); import harness.native.rlm.repl_process as p\n"
    refusing += "def refuse(): raise OSError(38, 'Function not implemented')\np.confine = refuse\np.main()"
    monkeypatch.setattr(repl_module, "_BOOT", refusing)
    with pytest.raises(SpawnFailed) as raised:
        turns_of("print('ran')")
    assert "cannot confine the REPL: Function not implemented" in raised.value.message
    assert "--unconfined-repl" in raised.value.hint
    [turn] = turns_of("import os\nprint(os.path.exists('/'))", is_confined=False)
    assert turn.stdout == "True\n"
