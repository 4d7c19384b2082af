"""The options and operands of the commands whose meaning we know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec


class Options(msgspec.Struct):
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


def options_of(words: Sequence[str], command: str) -> Options:
    """Read the words after the first as `command` understands them."""
    takes_value = _TAKES_VALUE.get(command, frozenset())
    options = Options()
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


def _take_cluster(options: Options, word: str, takes_value: frozenset[str], rest: Iterator[str]) -> None:
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
