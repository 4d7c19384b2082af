"""The operations of the file commands of a shell: read, search, list; and which commands only filter a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from harness.events.operation import List, Operation, Read, Search


class CommandOptions(msgspec.Struct):
    given: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Each option with its value, "" where it takes none."""
    operands: list[str] = msgspec.field(default_factory=list)

    def has(self, *names: str) -> bool:
        return not {name for name, _ in self.given}.isdisjoint(names)

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.given if name in names]


def names(text: str) -> frozenset[str]:
    """Several names, written with blanks between them."""
    return frozenset(text.split())


def options_of(words: Sequence[str], command: str) -> CommandOptions:
    """Read the words after the first as `command` understands them."""
    takes_value = _TAKES_VALUE.get(command, frozenset())
    options = CommandOptions()
    rest = iter(words[1:])
    for word in rest:
        if word == "--":
            options.operands.extend(rest)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            options.given.append((name, next(rest, "") if not equals and name in takes_value else value))
        elif word.startswith("-") and word[1:].isdigit():
            options.given.append(("-n", word[1:]))
        elif word.startswith("-") and len(word) > 1:
            _take_cluster(options, word, takes_value, rest)
        else:
            options.operands.append(word)
    return options


def _take_cluster(
    options: CommandOptions, word: str, takes_value: frozenset[str], rest: Iterator[str]
) -> None:
    """`-rn`, or `-n5`: letters up to the first that takes a value, which is what remains or the next word."""
    for index in range(1, len(word)):
        name = f"-{word[index]}"
        if name in takes_value:
            options.given.append((name, word[index + 1 :] or next(rest, "")))
            return
        options.given.append((name, ""))


_TAKES_VALUE: dict[str, frozenset[str]] = {
    "grep": names(
        "-A -B -C -D -d -e -f -m --after-context --before-context --binary-files --context --devices"
        " --directories --exclude --exclude-dir --exclude-from --file --include --label --max-count"
        " --regexp"
    ),
    "rg": names(
        "-A -B -C -E -M -T -d -e -f -g -j -m -r -t --after-context --before-context --color --colors --context"
        " --context-separator --encoding --engine --field-context-separator --field-match-separator --file --glob"
        " --iglob --ignore-file --max-columns --max-count --max-depth --max-filesize --path-separator --pre"
        " --pre-glob --regexp --replace --sort --sortr --threads --type --type-add --type-clear --type-not"
    ),
    "fd": names(
        "-E -S -X -c -d -e -j -o -t -x --base-directory --changed-before --changed-within --color --exact-depth"
        " --exclude --exec --exec-batch --extension --max-depth --max-results --min-depth --owner --search-path"
        " --size --threads --type"
    ),
    "head": names("-c -n --bytes --lines"),
    "tail": names("-c -n -s --bytes --lines --pid --sleep-interval"),
    "nl": names("-b -d -f -h -i -l -n -s -v -w"),
    "sed": names("-e -f -l --expression --file --line-length"),
    "ls": names("-I -T -w --hide --ignore --tabsize --width"),
    "tree": names("-H -I -L -P -T -o --charset --filelimit --sort"),
    "sort": names("-S -T -k -o -t --buffer-size --field-separator --key --output --parallel"),
    "awk": names("-F -f -v"),
}


Words = Sequence[str]
CommandMapping = Callable[[Words, Words], list[Operation] | None]
"""A command's words and the files of its `<` → its operations, paths as written; None: not (only) that."""


class LineWindow(msgspec.Struct, frozen=True):
    """Which lines of its input a command passes on, counted from 1. None: not known, or no bound."""

    start: int | None = 1
    end: int | None = None
    last: int | None = None
    """The last so many lines, when it counts from the end."""

    def of(self, operation: Operation) -> Operation:
        """The operation, if it is a read, narrowed to these lines of what it read."""
        if not isinstance(operation, Read) or self == LineWindow():
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


def windows_of(words: Words) -> list[LineWindow] | None:
    """The lines that a command passes on, if it cuts by position alone."""
    window = _WINDOWS.get(name_of(words[0]))
    return window(options_of(words, name_of(words[0]))) if window is not None else None


def is_filter(words: Words) -> bool:
    """Whether a later command of a pipe does nothing but show what it is given."""
    name = name_of(words[0])
    if name in _FILTERS:
        return _FILTERS[name](options_of(words, name))
    return windows_of(words) is not None


def _whole(_options: CommandOptions) -> list[LineWindow]:
    return [LineWindow()]


def _head(options: CommandOptions) -> list[LineWindow]:
    count = next(reversed(options.values("-n", "--lines")), "10")
    if options.has("-c", "--bytes") or not count.isdecimal():
        return [LineWindow()]
    return [LineWindow(end=int(count))]


def _tail(options: CommandOptions) -> list[LineWindow]:
    count = next(reversed(options.values("-n", "--lines")), "10")
    if options.has("-c", "--bytes"):
        return [LineWindow(start=None)]
    if count.startswith("+") and count[1:].isdecimal():
        return [LineWindow(start=max(1, int(count[1:])))]
    count = count.removeprefix("-")
    return [LineWindow(last=int(count))] if count.isdecimal() else [LineWindow(start=None)]


_SED_PRINT = re.compile(r"(?P<start>\d+|\$|/[^/]*/)(?:,(?P<end>\+?\d+|\$|/[^/]*/))?p")
_SED_QUIT = re.compile(r"(\d+|\$)?q")
_SED_SUBSTITUTE = re.compile(r"[\d,$]*s([/|#,:@!])(?:(?!\1).)*\1(?:(?!\1).)*\1[gip\d]*", re.IGNORECASE)


def _sed(options: CommandOptions) -> list[LineWindow] | None:
    if options.has("-i", "--in-place", "-f", "--file") or not options.has("-n", "--quiet", "--silent"):
        return None
    windows = [window for script in _sed_scripts(options) for window in _sed_windows(script)]
    return None if not windows or None in windows else [window for window in windows if window is not None]


def _sed_scripts(options: CommandOptions) -> list[str]:
    """Its scripts; removed from the operands where they are among them."""
    scripts = options.values("-e", "--expression")
    if not scripts and options.operands:
        scripts = [options.operands.pop(0)]
    return [part.strip() for script in scripts for part in re.split(r"[;\n]", script) if part.strip()]


def _sed_windows(script: str) -> list[LineWindow | None]:
    if _SED_QUIT.fullmatch(script):
        return []
    match = _SED_PRINT.fullmatch(script)
    if match is None or (match["end"] is None and match["start"].startswith("/")):
        return [None]
    start, end = _sed_line(match["start"]), _sed_line(match["end"] or match["start"])
    if start is not None and end is not None and (match["end"] or "").startswith("+"):
        end += start
    return [LineWindow(start=start, end=end)]


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


def _is_harmless_search(options: CommandOptions) -> bool:
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


def _is_plain_awk(options: CommandOptions) -> bool:
    return not options.has("-f", "-i") and not any(_AWK_ACTS.search(word) for word in options.operands)


def _is_plain_sed(options: CommandOptions) -> bool:
    if options.has("-i", "--in-place", "-f", "--file"):
        return False
    scripts = options.values("-e", "--expression") or options.operands[:1]
    if all(_SED_SUBSTITUTE.fullmatch(script) for script in scripts):
        return True
    return _sed(options) is not None


def _always(_options: CommandOptions) -> bool:
    return True


_SYNONYMS = {"egrep": "grep", "fgrep": "grep", "ripgrep": "rg", "fdfind": "fd", "gsed": "sed", "gawk": "awk"}

_WINDOWS: dict[str, Callable[[CommandOptions], list[LineWindow] | None]] = {
    "cat": _whole,
    "head": _head,
    "nl": _whole,
    "sed": _sed,
    "tail": _tail,
}

FILE_COMMANDS: dict[str, CommandMapping] = {
    **dict.fromkeys(_WINDOWS, _read),
    "fd": _fd,
    "find": _find,
    "grep": _search,
    "ls": _list,
    "rg": _search,
    "tree": _tree,
}

_FILTERS: dict[str, Callable[[CommandOptions], bool]] = {
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
