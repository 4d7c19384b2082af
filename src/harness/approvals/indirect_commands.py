"""Commands that come to another one without its words: by a front end, an extension, or a setting that names a program.

`gh repo sync` and `git lfs push` push, and so does a commit after `git config core.hooksPath x`. What they do is not seen in
the line, so a rule about the other command asks about them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.approvals.command_grammar import names

_FRONT_ENDS = {
    "git": names("aicommits gh git-town gitui glab gt hub jj lazygit repo sl stg tig"),
}
"""Program → others that run it, or do the same."""
_ONLY_SHOWS = re.compile(
    r"(?:gh|glab) (?:auth status|help|search|status|version|(?:api-)?\w+ (?:checks|diff|list|status|view|watch))(?: |$)"
    r"|jj (?:diff|evolog|log|show|st|status)(?: |$)|\S+ (?:--help|--version)$"
)
_OF_GIT = names(
    "add am apply archive bisect blame branch cat-file checkout cherry-pick clean clone commit config describe diff fetch"
    " for-each-ref format-patch gc grep init log ls-files ls-remote ls-tree merge merge-base mv notes pull push rebase reflog"
    " remote reset restore rev-list rev-parse revert rm shortlog show sparse-checkout stash status submodule switch tag"
    " worktree"
)
"""Commands of git itself, of which it is known what they do. Any other may be an extension, an alias or plumbing."""
_PLUMBING = {"push": names("http-push p4 receive-pack remote-ext remote-http remote-https send-pack svn")}
_NAMES_A_PROGRAM = re.compile(
    r"(?:alias|credential|diff|difftool|filter|gpg|hook|include|includeif|merge|mergetool|pager|trailer)\."
    r"|core\.(?:askpass|editor|fsmonitor|gitproxy|hookspath|pager|sshcommand|alternaterefscommand)\b"
    r"|(?:interactive\.difffilter|sequence\.editor|uploadpack\.packobjectshook)\b"
    r"|remote\..*\.(?:receivepack|uploadpack|vcs)\b",
    re.IGNORECASE,
)
"""Settings of git by which it starts something later."""
_SHOWS_A_SETTING = names("--get --get-all --get-regexp --list -l get list")
_STARTS_LATER = re.compile(
    r"(?:BASH_ENV|BASH_FUNC_.*|ENV|GIT_(?:ASKPASS|CONFIG.*|EDITOR|EXEC_PATH|EXTERNAL_DIFF|PAGER|PROXY_COMMAND"
    r"|SEQUENCE_EDITOR|SSH|SSH_COMMAND|TEMPLATE_DIR)|LD_AUDIT|LD_PRELOAD|NODE_OPTIONS|PERL5OPT|PROMPT_COMMAND|PYTHONSTARTUP"
    r"|RUBYOPT|SSH_ASKPASS|SUDO_ASKPASS|ZDOTDIR)\+?=(.*)",
    re.DOTALL,
)
"""Variables by which a program starts something besides what it is told to."""
_STARTS_NOTHING = names("'' \"\" : cat less more true /bin/true /dev/null")


def could_lead_to(words: Sequence[str], forms: Sequence[str]) -> bool:
    """Whether a command with these words could come to run the wanted one."""
    if any(_starts_something_later(word) for word in words):
        return True
    for place, word in enumerate(words):
        name = word.rpartition("/")[2]
        rest = words[place + 1 :]
        if name in _FRONT_ENDS.get(forms[0], ()) and not _ONLY_SHOWS.match(" ".join((name, *rest))):
            return True
        if name == "git" == forms[0] and _git_could_lead_to(rest, forms):
            return True
    return False


def _starts_something_later(word: str) -> bool:
    match = _STARTS_LATER.fullmatch(word)
    return match is not None and match[1] not in _STARTS_NOTHING and bool(match[1])


def _git_could_lead_to(words: Sequence[str], forms: Sequence[str]) -> bool:
    if any(_NAMES_A_PROGRAM.match(word) for word in words) and not _SHOWS_A_SETTING.intersection(words):
        return True
    wanted = forms[1] if len(forms) > 1 else ""
    command = next((word for word in words if not word.startswith("-")), "")
    if not wanted or command in _OF_GIT:
        return False
    return wanted in (*words, *re.split(r"\W", command)) or command in _PLUMBING.get(wanted, ())
