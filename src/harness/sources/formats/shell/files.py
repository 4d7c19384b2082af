"""What the file commands of a shell mean: read, search, list; and which commands only filter a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from harness.events.operation import List, Operation, Read, Search
from harness.sources.formats.shell.options import Options, names, options_of

Words = Sequence[str]
Meaning = Callable[[Words, Words], list[Operation] | None]
"""A command's words and the files of its `<` → its operations, paths as written; None: not (only) that."""


class Window(msgspec.Struct, frozen=True):
    """Which lines of its input a command passes on, counted from 1. None: not known, or no bound."""

    start: int | None = 1
    end: int | None = None
    last: int | None = None
    """The last so many lines, when it counts from the end."""

    def of(self, operation: Operation) -> Operation:
        """The operation, if it is a read, narrowed to these lines of what it read."""
        if not isinstance(operation, Read) or self == Window():
            return operation
        base, end = operation.start_line or 1, operation.end_line
        if self.last is not None:
            start = None if end is None else max(base, end - self.last + 1)
            return replace(operation, start_line=start)
        start = None if self.start is None else base + self.start - 1
        if self.end is not None:
            end = base + self.end - 1 if end is None else min(end, base + self.end - 1)
        return replace(operation, start_line=start, end_line=end)


def name_of(word: str) -> str:
    """The command that a first word names: `/usr/bin/cat` is `cat`."""
    name = word.rpartition("/")[2]
    return _SYNONYMS.get(name, name)


def windows_of(words: Words) -> list[Window] | None:
    """The lines that a command passes on, if it cuts by position alone."""
    window = _WINDOWS.get(name_of(words[0]))
    return window(options_of(words, name_of(words[0]))) if window is not None else None


def is_filter(words: Words) -> bool:
    """Whether a later command of a pipe does nothing but show what it is given."""
    name = name_of(words[0])
    if name in _FILTERS:
        return _FILTERS[name](options_of(words, name))
    return windows_of(words) is not None


def _whole(_options: Options) -> list[Window]:
    return [Window()]


def _head(options: Options) -> list[Window]:
    count = next(reversed(options.values("-n", "--lines")), "10")
    if options.has("-c", "--bytes") or not count.isdecimal():
        return [Window()]
    return [Window(end=int(count))]


def _tail(options: Options) -> list[Window]:
    count = next(reversed(options.values("-n", "--lines")), "10")
    if options.has("-c", "--bytes"):
        return [Window(start=None)]
    if count.startswith("+") and count[1:].isdecimal():
        return [Window(start=max(1, int(count[1:])))]
    count = count.removeprefix("-")
    return [Window(last=int(count))] if count.isdecimal() else [Window(start=None)]


_SED_PRINT = re.compile(r"(?P<start>\d+|\$|/[^/]*/)(?:,(?P<end>\+?\d+|\$|/[^/]*/))?p")
_SED_QUIT = re.compile(r"(\d+|\$)?q")
_SED_SUBSTITUTE = re.compile(r"[\d,$]*s([/|#,:@!])(?:(?!\1).)*\1(?:(?!\1).)*\1[gip\d]*", re.IGNORECASE)


def _sed(options: Options) -> list[Window] | None:
    if options.has("-i", "--in-place", "-f", "--file") or not options.has("-n", "--quiet", "--silent"):
        return None
    windows = [window for script in _sed_scripts(options) for window in _sed_windows(script)]
    return None if not windows or None in windows else [window for window in windows if window is not None]


def _sed_scripts(options: Options) -> list[str]:
    """Its scripts; taken out of the operands where they stand there."""
    given = options.values("-e", "--expression")
    if not given and options.operands:
        given = [options.operands.pop(0)]
    return [part.strip() for script in given for part in re.split(r"[;\n]", script) if part.strip()]


def _sed_windows(script: str) -> list[Window | None]:
    if _SED_QUIT.fullmatch(script):
        return []
    found = _SED_PRINT.fullmatch(script)
    if found is None or (found["end"] is None and found["start"].startswith("/")):
        return [None]
    start, end = _sed_line(found["start"]), _sed_line(found["end"] or found["start"])
    if start is not None and end is not None and (found["end"] or "").startswith("+"):
        end += start
    return [Window(start=start, end=end)]


def _sed_line(address: str) -> int | None:
    digits = address.removeprefix("+")
    return int(digits) if digits.isdecimal() else None


def _read(words: Words, inputs: Words) -> list[Operation] | None:
    name = name_of(words[0])
    options = options_of(words, name)
    windows = _WINDOWS[name](options)
    if windows is None:
        return None
    paths = [path for path in options.operands if path != "-"] or inputs
    return [window.of(Read(path=path)) for path in paths for window in windows]


def _search(words: Words, _inputs: Words) -> list[Operation] | None:
    options = options_of(words, name_of(words[0]))
    operands = options.operands
    if options.has("--files"):
        globs = options.values("-g", "--glob", "--iglob")
        return _searches(globs, operands) if globs else _lists(operands)
    if not _is_harmless_search(options):
        return None
    patterns = options.values("-e", "--regexp") or operands[:1]
    paths = operands if options.has("-e", "--regexp") else operands[1:]
    return _searches(patterns, paths) if patterns else None


def _searches(queries: Words, paths: Words) -> list[Operation]:
    return [Search(query=query, path=paths[0] if len(paths) == 1 else "") for query in queries]


def _lists(paths: Words) -> list[Operation]:
    return [List(path=path) for path in paths] or [List()]


def _is_harmless_search(options: Options) -> bool:
    """`--pre` runs a program; what a pattern file asks for cannot be seen."""
    return not options.has("--pre", "-f", "--file")


def _fd(words: Words, _inputs: Words) -> list[Operation] | None:
    options = options_of(words, "fd")
    if options.has("-x", "--exec", "-X", "--exec-batch"):
        return None
    places = [*options.operands[1:], *options.values("--base-directory", "--search-path")]
    if options.operands:
        return _searches(options.operands[:1], places)
    extensions = [f"*.{extension}" for extension in options.values("-e", "--extension")]
    return _searches(extensions, places) if extensions else _lists(places)


_FIND_PATTERNS = names("-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname")
_FIND_ACTIONS = names("-delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir")


def _find(words: Words, _inputs: Words) -> list[Operation] | None:
    """The query is the name or path pattern, else the expression as it stands, else the place."""
    if not _FIND_ACTIONS.isdisjoint(words):
        return None
    arguments = [word for word in words[1:] if word not in ("-H", "-L", "-P")]
    split = next((at for at, word in enumerate(arguments) if word[:1] in ("-", "(", "!")), len(arguments))
    places, expression = arguments[:split], arguments[split:]
    tests = zip(["", *expression], expression, expression[1:], strict=False)
    patterns = [
        value for before, test, value in tests if test in _FIND_PATTERNS and before not in ("!", "-not")
    ]
    return _searches(patterns or [" ".join(expression or places) or "."], places)


def _list(words: Words, _inputs: Words) -> list[Operation] | None:
    return _lists(options_of(words, name_of(words[0])).operands)


def _tree(words: Words, inputs: Words) -> list[Operation] | None:
    """With `-o` it writes what it lists."""
    return None if options_of(words, "tree").has("-o") else _list(words, inputs)


_AWK_ACTS = re.compile(r"system|getline|[>|]")


def _is_plain_awk(options: Options) -> bool:
    return not options.has("-f", "-i") and not any(_AWK_ACTS.search(word) for word in options.operands)


def _is_plain_sed(options: Options) -> bool:
    if options.has("-i", "--in-place", "-f", "--file"):
        return False
    scripts = options.values("-e", "--expression") or options.operands[:1]
    if all(_SED_SUBSTITUTE.fullmatch(script) for script in scripts):
        return True
    return _sed(options) is not None


def _always(_options: Options) -> bool:
    return True


_SYNONYMS = {"egrep": "grep", "fgrep": "grep", "ripgrep": "rg", "fdfind": "fd", "gsed": "sed", "gawk": "awk"}

_WINDOWS: dict[str, Callable[[Options], list[Window] | None]] = {
    "cat": _whole,
    "head": _head,
    "nl": _whole,
    "sed": _sed,
    "tail": _tail,
}

MEANINGS: dict[str, Meaning] = {
    **dict.fromkeys(_WINDOWS, _read),
    "fd": _fd,
    "find": _find,
    "grep": _search,
    "ls": _list,
    "rg": _search,
    "tree": _tree,
}

_FILTERS: dict[str, Callable[[Options], bool]] = {
    **dict.fromkeys(
        ("column", "cut", "fold", "jq", "less", "more", "rev", "tac", "tee", "tr", "wc"), _always
    ),
    "awk": _is_plain_awk,
    "grep": _is_harmless_search,
    "rg": _is_harmless_search,
    "sed": _is_plain_sed,
    "sort": lambda options: not options.has("-o", "--output"),
    "uniq": lambda options: not options.operands,
}
