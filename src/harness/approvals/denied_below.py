"""Whether a call reads all of a folder in which something lies that a rule denies or asks about.

A search through a folder reads the file that must not be read without naming it. Lists of names are no reading.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import product, takewhile

from harness.approvals.call import ProposedCall
from harness.approvals.command_fragments import fragments_of, says_what_runs, with_whole_words
from harness.approvals.command_grammar import names
from harness.approvals.command_lines import commands_of
from harness.approvals.known_variables import settled
from harness.approvals.rules import Rule, is_path_of, matched, parts_of
from harness.approvals.work_folder import WorkFolder

_READ_BELOW = names(
    "7z 7za 7zz ack ag ar asar bindfs bsdtar bzip2 chmod chown cp cpio diff ditto docker egrep fgrep genisoimage grep gtar"
    " gzip install jar ln mkisofs mksquashfs mount mv pax podman rar rclone rg rm rsync scp sftp tar xz zip zstd"
    " tarfile zipapp zipfile"
)
"""Programs that read or change every file below a folder, or give the folder another name; the last are of Python."""
_SERVES = names(
    "caddy darkhttpd filebrowser http http-server http.server httpd live-server lighttpd miniserve ngrok ruby-httpd serve"
    " servez simple-http-server static-web-server thttpd webfsd"
)
"""Programs that give everybody what lies in a folder, or where they run."""
_WITHOUT_A_FOLDER = names("ack ag rg") | _SERVES
_OF_ALL_FILES = names(
    "archive bundle cat-file checkout-index clone diff fast-export format-patch grep log show stash worktree"
)
"""Commands of git that show what is in files of the repository."""
_MOST_NAMES = 20_000
"""Of a folder with more it is not known what lies in it."""


def first_below(rules: Iterable[Rule], call: ProposedCall, workspace: WorkFolder) -> Rule | None:
    """The first rule that denies or asks about something in a folder that a call reads as a whole."""
    path_rules = [rule for rule in rules if rule.answer != "allow" and rule.path and rule.is_about(call)]
    if not path_rules:
        return None
    for folder in dict.fromkeys(_folders(call, workspace)):
        for number, path in enumerate(_paths_in(folder)):
            for rule in path_rules:
                if number >= _MOST_NAMES or is_path_of(rule.path, path, workspace):
                    return rule
    return None


def _folders(call: ProposedCall, workspace: WorkFolder) -> Iterator[str]:
    if call.category == "read" and not call.lists:
        for path in call.paths or (".",):
            yield from filter(os.path.isdir, workspace.reals(path, call.cwd))
    for line in settled(call.command):
        yield from _folders_in_line(line, call, workspace)


def _folders_in_line(line: str, call: ProposedCall, workspace: WorkFolder) -> Iterator[str]:
    commands = _commands_in(line)
    places = dict.fromkeys(
        (
            call.cwd,
            *(os.path.join(call.cwd, words[1]) for words in commands if words[0] == "cd" and words[1:]),
        )
    )
    for words in commands:
        name = words[0].rpartition("/")[2]
        operands = words[1:] if name in _READ_BELOW else ()
        named_places = [part for word in operands for part in parts_of(word) if not part.startswith("-")]
        for word, place in product(named_places, places):
            for path in (word, *matched(word, place, workspace)):
                yield from filter(os.path.isdir, workspace.reals(path, place))
    searching = _commands_in(with_whole_words(line)) if _is_plain(line) else commands
    if any(map(_shows_files, searching)):
        yield from workspace.reals(".", call.cwd)
    if any(map(_searches_here, searching)):
        for place in places:
            yield from workspace.reals(".", place)


_PLAIN_OPTION = re.compile(
    r"-\d+|-n\d*|--(?:oneline|graph|all|decorate|reverse|no-merges|merges|first-parent|follow|branches|tags|abbrev-commit"
    r"|no-color|cached|staged|stat|shortstat|numstat|name-only|name-status|no-patch)"
    r"|--(?:max-count|since|after|until|before|author|committer|grep|format|pretty|date|decorate)=[^$`*?\[{]*"
)
_OF_NAMES = frozenset({"--stat", "--shortstat", "--numstat", "--name-only", "--name-status", "--no-patch"})
_SEPARATORS, _QUIET = names("&& || ; |"), names("2>&1 2>/dev/null")
_PLAIN_WORD = re.compile(r"[\w./@^~][\w./@^~-]*")
_OF_A_REVISION = re.compile(r"[\w/.@^~-]+:[\w./-]+")


def _shows_files(words: list[str]) -> bool:
    """Whether it is a command of git that shows what is in files of the repository."""
    words = list(
        takewhile(lambda word: word not in _SEPARATORS, words)
    )  # what follows is looked at by itself
    is_git = bool(words) and words[0].rpartition("/")[2] == "git"
    return is_git and bool(_OF_ALL_FILES.intersection(words)) and not _shows_no_content(words)


def _shows_no_content(words: list[str]) -> bool:
    """Whether a command of git shows names and messages alone, or one file that it names.

    A whitelist: options may be shortened, and one that is not known may show everything (`--patch`).
    """
    words = list(
        takewhile(lambda word: word not in _SEPARATORS, words)
    )  # what follows is looked at by itself
    name, rest = (words[1] if len(words) > 1 else ""), [word for word in words[2:] if word not in _QUIET]
    options = [word for word in rest if word.startswith("-")]
    others = [word for word in rest if not word.startswith("-")]
    if words[0] != "git" or not all(map(_PLAIN_OPTION.fullmatch, options)):
        return False
    if name == "show" and not options and len(others) == 1 and _OF_A_REVISION.fullmatch(others[0]):
        return True
    is_of_names = name == "log" or (name in ("diff", "show") and bool(_OF_NAMES & {*options}))
    return is_of_names and all(map(_PLAIN_WORD.fullmatch, others))


def _is_plain(line: str) -> bool:
    """Whether it is certain what its commands are, and that none of them runs a text that is quoted: then each is looked at
    once, with what is quoted in one piece.
    """
    return all(says_what_runs(command.split(maxsplit=1)[0]) for command in commands_of(line) or ("sh",))


def _commands_in(line: str) -> list[list[str]]:
    found = (fragment.split() for fragment in dict.fromkeys(fragments_of(line)))
    return [_by_its_name(words) for words in found if words]


_RUNS_A_PART = re.compile(r"(?:bunx|npx|pipx|uvx|busybox|toybox|pnpm|yarn|python[\d.]*|py|pypy[\d.]*)$")
"""What it is called is not what it does: `python -m zipfile`, `npx serve`, `busybox httpd`."""
_OF_ITS_SERVER = re.compile(r"php .*-S|ruby .*-run .*httpd|python[\d.]* .*-m *SimpleHTTPServer")


def _by_its_name(words: list[str]) -> list[str]:
    """`python -m zipfile -c x .` is `zipfile -c x .`."""
    if _OF_ITS_SERVER.match(line := " ".join(words)):
        return ["httpd", *words[1:]]
    if not _RUNS_A_PART.match(words[0].rpartition("/")[2]):
        return words
    part = re.search(r" -\w*m *([\w.]+)(.*)", line) or re.search(
        r" (?:dlx |exec )?([a-z][\w.-]*)(?:@\S+)?(.*)", line
    )
    return words if part is None else [part[1], *part[2].split()]


def _searches_here(words: list[str]) -> bool:
    """Whether it goes through the folder in which it runs."""
    name = words[0].rpartition("/")[2]
    options = "".join(word for word in words if word.startswith("-")).casefold()
    return (name in _WITHOUT_A_FOLDER or ("grep" in name and "r" in options)) and not _names_a_place(words)


_WITHOUT_VALUES = {
    "grep": re.compile(r"-[EFGHiIlLnoqrsvwchxP]+|--(?:color|include|exclude)=[\w.*-]+"),
    "rg": re.compile(r"-[FHiIlnNoqsSvwcxUPp]+|--color=\w+"),
}
"""Program → options after which the next word is not their value, and which follow no links."""


def _names_a_place(words: list[str]) -> bool:
    """Whether a search has a pattern and then a place: without one it goes through the folder in which it runs."""
    options = _WITHOUT_VALUES.get(words[0].rpartition("/")[2])
    rest = list(takewhile(lambda word: not set(word) & set(";&|<>()"), words[1:]))
    while rest and options is not None and options.fullmatch(rest[0]):
        rest = rest[1:]
    return options is not None and len(rest) > 1 and not any(word.startswith("-") for word in rest)


def _paths_in(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        yield from (os.path.join(place, name) for name in (*files, *folders))
