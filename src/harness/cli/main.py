"""`harness`: finds the command, and turns every error into one clear line.

Nothing but `sys` and `os` is imported here: `harness --version` and shell completion must be quick,
and each command loads only what it needs.
"""

from __future__ import annotations

import os
import sys

from harness.version import __version__

TYPE_CHECKING = False
"""Type checkers know this name; to import it would cost more than all the rest here."""
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from harness.cli.console import Console

_LEADING_OPTIONS = ("-v", "--verbose", "--no-color")
"""They are also accepted before the command."""
_VERSION_OPTIONS = ("--version", "-V")
_VERSION = f"harness {__version__}"


def entry() -> NoReturn:
    """The installed program."""
    _leave_on_interrupt()
    _fill_standard_streams()
    words = sys.argv[1:]
    if not _asks_version(words):
        _speed_up_start()
    _leave(main(words))


def _leave_on_interrupt() -> None:
    """Until there is something to clean up, Ctrl-C ends the program at once.

    An exception could occur anywhere, also during imports: extension modules that are being set up
    have crashed on it, and others have swallowed it. `interruption.py` has what happens later.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))


def _asks_version(words: Sequence[str]) -> bool:
    return bool(words) and words[0] in _VERSION_OPTIONS


def _speed_up_start() -> None:
    """Skip work that would take a fifth of the start-up."""
    import gc

    gc.set_threshold(50_000, 20, 100)  # modules and classes are no garbage
    if sys.modules.setdefault("typing_extensions", None) is None:  # type: ignore[arg-type]
        # msgspec takes it where it is installed, though it finds the same in `typing`.
        try:
            import msgspec  # noqa: F401
        finally:
            del sys.modules["typing_extensions"]


def _leave(code: int) -> NoReturn:
    """Exit at once: everything is written and closed, and freeing the memory would only take time."""
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001 # libraries may have something to clean up that is not memory
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue  # it was closed
    os._exit(code)


def main(words: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code and never raises."""
    if _asks_version(words) and _print_version():
        return 0
    from harness.cli.console import Console

    console = Console()
    try:
        return _checked(words, console)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 # the last catch: a bug is reported in words, with where the traceback is
        return _report_refusal(error, console) or _report_bug(error, console)


def _checked(words: Sequence[str], console: Console) -> int:
    from harness.cli.output import ReaderGone
    from harness.clients.exit_codes import READER_GONE
    from harness.errors import HarnessError

    try:
        return _dispatch(words, console)
    except HarnessError as error:
        console.error(error)
        return error.exit_code
    except ReaderGone:
        return READER_GONE
    except SystemExit as error:  # argparse after --help
        return error.code if isinstance(error.code, int) else 0


def _dispatch(words: Sequence[str], console: Console) -> int:
    from harness.cli import parser
    from harness.cli.output import write_text
    from harness.errors import UsageError

    leading, words = _take_leading_options(words)
    if not words:
        console.put(_overview(console))
        return 2
    name, *rest = words
    if name in ("-h", "--help", "help"):
        if rest and rest[0] in parser.names():
            parser.parser_of(rest[0]).print_help()
        else:
            write_text(parser.overview())
        return 0
    if name in _VERSION_OPTIONS:
        write_text(f"{_VERSION}\n")
        return 0
    if name not in parser.names():
        kind = "option" if name.startswith("-") else "command"
        raise UsageError(f"unknown {kind}: {name}", hint=parser.similar(name, parser.names(), "harness"))
    color = "never" if "--no-color" in leading else "auto"
    arguments = parser.parse(name, rest, verbose={"-v", "--verbose"} & {*leading} != set(), color=color)
    if arguments.verbose:
        console.set_level("debug")
    code: int = parser.load(name).execute(arguments, console)
    return code


def _overview(console: Console) -> str:
    """On a terminal the usage comes after what matters now; a program gets the usage alone."""
    from harness.cli import parser
    from harness.cli.console import is_terminal

    if not is_terminal(2):
        return parser.overview()
    from harness.cli.first_screen import first_screen

    return first_screen(console, parser.overview())


def _take_leading_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    position = 0
    while position < len(words) and words[position] in _LEADING_OPTIONS:
        position += 1
    return list(words[:position]), list(words[position:])


def _print_version() -> bool:
    """Not where standard output cannot be written, which is said with what says it for every command."""
    try:
        os.write(1, f"{_VERSION}\n".encode())
    except OSError:
        return False
    return True


def _fill_standard_streams() -> None:
    """Closed standard streams become /dev/null: else the next file opened would take their place."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if fd == 0 else os.O_WRONLY)


def _report_refusal(error: Exception, console: Console) -> int:
    """What the machine refuses (a read-only home, a full disk) is no bug. 0 for everything else."""
    import errno

    from harness.errors import HarnessError

    about_a_file = (
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
    )
    about_the_machine = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    if not isinstance(error, OSError):
        return 0
    if error.errno == errno.ENOENT and not error.filename and _is_folder_gone():
        words = f"the current directory cannot be used: {error.strerror}"
        console.error(HarnessError(words, hint="was it deleted? change to another one"))
        return 2
    if error.errno not in about_the_machine and not (error.errno in about_a_file and error.filename):
        return 0
    from harness.system.plain_text import plain_text

    place = plain_text(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else "a file"
    console.error(
        HarnessError(
            f"the system refuses the use of {place}: {error.strerror}",
            hint="harness keeps its files below $XDG_DATA_HOME, $XDG_CONFIG_HOME and $XDG_CACHE_HOME, or in your home",
        )
    )
    return 1


def _is_folder_gone() -> bool:
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _report_bug(error: Exception, console: Console) -> int:
    """A traceback helps developers, not users: it goes into a file."""
    from harness.cli.crash_report import write_traceback
    from harness.clients.exit_codes import BUG

    summary = f"{type(error).__name__}: {error}".split("\n", 1)[0][:300]
    console.say(f"harness: this is a bug in harness: {summary}")
    if path := write_traceback(error):
        console.say(f"  please report it with the details in {path}")
    return BUG


if __name__ == "__main__":
    entry()
