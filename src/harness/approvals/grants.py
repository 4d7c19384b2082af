"""What "always" offers, and what it then allows: the label of a button says all of it.

| the call | offered |
|---|---|
| a command line | exactly this line, whatever the model says about it |
| a command of the table below | also its form: the same words and options, then any names or paths below the folder |
| an edit below the folder | edits of this file |
| a read elsewhere | reading below that folder |
| a tool of a server | the tool with any arguments; with these arguments where one is a path, a command or an address |
| a skill, a sub-agent, a request to the network | with these arguments |
| doubt, several calls, a masked secret, a protected name, an unknown tool, more than a label can say, a rule that asks | nothing |

A form exists only for programs and options of which none writes elsewhere, runs another program or sends something.
A person who reads "git log …" thinks of reading: `git log --output=…` is not covered by it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import convert
from msgspec.structs import asdict, replace

from harness.approvals.arguments import spelled
from harness.approvals.call import ProposedCall
from harness.approvals.command_grammar import names, parse
from harness.approvals.globs import escaped, literal
from harness.approvals.rules import FORM_END, Rule, is_plain_operand, other_arguments
from harness.approvals.work_folder import WorkFolder
from harness.events import Grant, RelayChoice
from harness.system.file_names import NOT_FILES

ONCE, ALWAYS, PATTERN, REJECT = "once", "always", "pattern", "reject"
LONGEST_LABEL = 200
_MASK = "[REDACTED"
_ACTS_BY = (
    "path",
    "file",
    "dir",
    "folder",
    "command",
    "cmd",
    "script",
    "code",
    "url",
    "uri",
    "host",
    "query",
)
"""In the name of an argument: by it a tool of a server reads, writes, runs or sends."""


_CARGO = names(
    "--release --workspace --all --all-targets --all-features --lib --bins --tests --no-run --quiet -q --verbose -v"
    " --locked --offline --check"
)
_SCRIPTS = names("--silent -s --if-present --workspaces")
FORMS: Mapping[tuple[str, ...], frozenset[str]] = {
    **{(program, "test"): _SCRIPTS for program in ("npm", "pnpm", "yarn", "bun")},
    **{("cargo", name): _CARGO for name in ("build", "test", "check", "clippy", "fmt")},
    ("go", "build"): names("-v -race"),
    ("go", "vet"): names("-v"),
    ("pytest",): names(
        "-q -qq -x -v -vv -s -k -m -rA -ra --lf --ff --tb=short --tb=long --tb=line --tb=no --maxfail=1 --no-header"
    ),
    ("ruff", "check"): names("--fix --diff --quiet -q --preview --no-cache"),
    ("ruff", "format"): names("--check --diff --quiet -q --preview --no-cache"),
    ("mypy",): names("--strict --pretty --no-error-summary --no-color-output"),
    ("tsc",): names("--noEmit --pretty"),
    ("eslint",): names("--fix --quiet --cache"),
    ("prettier", "--check"): names(""),
    ("git", "status"): names("-s --short -b --branch --porcelain"),
    ("git", "log"): names("--oneline -p --stat --graph --all --decorate -1 -2 -3 -5 -10 -20 -n"),
    ("git", "diff"): names("--stat --cached --staged --name-only --name-status -w"),
    ("git", "show"): names("--stat --name-only --name-status"),
    ("git", "branch"): names("-a -r -v -vv --list --show-current"),
    ("git", "add"): names("-A --all -u"),
    ("git", "commit"): names("-m -a -am -q"),
}
"""The words that a command begins with → options that may be among its operands."""
_NAMED_SCRIPTS = frozenset({"npm", "pnpm", "yarn", "bun"})
"""`npm run NAME`: the name belongs to the words."""


def choices_for(
    calls: Sequence[ProposedCall],
    workspace: WorkFolder,
    rule: Rule | None = None,
    label: str = "",
    *,
    is_lasting: bool = True,
) -> list[RelayChoice]:
    """The answers to a question for permission: once, always as far as it can be offered, or not.

    `rule` and `label`: what "always" means where the tool itself says so, for tools of this process. `is_lasting`: False
    where it would be asked about again all the same.
    """
    offers = [] if len(calls) != 1 or not is_lasting else _offers(calls[0], workspace, rule, label)
    return [
        RelayChoice(id=ONCE, kind="allow-once", label="Allow once"),
        *(
            RelayChoice(
                id=id,
                kind="allow-always",
                label=f"Always allow {text}",
                grants=[_grant(each) for each in rules],
            )
            for id, text, rules in offers
        ),
        RelayChoice(id=REJECT, kind="reject-once", label="Deny"),
    ]


_Offer = tuple[str, str, list[Rule]]
_rule = partial(Rule, answer="allow", source="grant")


def _offers(call: ProposedCall, workspace: WorkFolder, rule: Rule | None, label: str) -> list[_Offer]:
    if call.doubt or _MASK in spelled(call.input):
        return []
    if call.category == "execute" and call.command:
        return _command_offers(call, workspace)
    if rule is not None:
        return [(ALWAYS, label, [rule])] if len(label) <= LONGEST_LABEL else []
    match call.category:
        case "edit":
            return _edit_offers(call, workspace)
        case "read":
            return _read_offers(call, workspace)
        case "mcp" if not _acts_by_an_argument(call):
            text = f"{_with_server(call.tool, call.server)}, with any arguments"
            return [(ALWAYS, text, [_rule(tool=escaped(call.tool), server=escaped(call.server))])]
        case "mcp" | "network" | "execute":
            return _exact_offers(call)
    return []


def _command_offers(call: ProposedCall, workspace: WorkFolder) -> list[_Offer]:
    line = call.command
    if len(line) > LONGEST_LABEL or not line.isprintable() or not workspace.holds(call.cwd or "."):
        return []
    if line.endswith(FORM_END):  # which would make a form of it
        return []
    others = other_arguments(call)
    place = _place(call, workspace)
    if len(place) > LONGEST_LABEL or not place.isprintable():
        return []
    beside = f" ({_listed(others)})" if others else ""
    beside += f" in {place}" if place else ""
    exact = _rule(tool=escaped(call.tool), command=line, path=escaped(place), params=others or None)
    offers: list[_Offer] = [(ALWAYS, f"exactly: {line}{beside}", [exact])]
    plain = parse(line)
    forms = [_form(words, call, others) for words in plain.commands] if plain is not None else []
    rules = [replace(form, path=escaped(place)) for form in forms if form is not None]
    if rules and len(rules) == len(forms):
        label = " · ".join(dict.fromkeys(_shown_form(rule) for rule in rules))
        offers.append((PATTERN, f"{label}{beside}, and names or paths below the folder after it", rules))
    return offers


def _place(call: ProposedCall, workspace: WorkFolder) -> str:
    """Where a command runs; empty: in the folder itself."""
    here, top = workspace.reals(".", call.cwd), workspace.reals(".")
    return "" if {*here} == {*top} else here[0]


def _form(words: Sequence[str], call: ProposedCall, others: dict[str, str]) -> Rule | None:
    """The form of one command; None where it has none, or an option or operand that a form must not have."""
    beginning: tuple[str, ...]
    if len(words) > 2 and words[0] in _NAMED_SCRIPTS and words[1] == "run":
        beginning, safe = (*words[:3],), _SCRIPTS
    else:
        known_head = next((head for head in (tuple(words[:2]), tuple(words[:1])) if head in FORMS), None)
        if known_head is None:
            return None
        beginning, safe = known_head, FORMS[known_head]
    rest = words[len(beginning) :]
    options = [word for word in rest if word.startswith("-")]
    if not safe.issuperset(options) or not all(
        is_plain_operand(word) for word in rest if word not in options
    ):
        return None
    if not all(word.isascii() and word and " " not in word for word in beginning):
        return None
    return _rule(
        tool=escaped(call.tool),
        command=f"{' '.join(beginning)}{FORM_END}",
        options=tuple(dict.fromkeys(options)),
        params=others or None,
    )


def _shown_form(rule: Rule) -> str:
    words = rule.command.removesuffix(FORM_END)
    return " ".join((words, *rule.options, "…"))


def _edit_offers(call: ProposedCall, workspace: WorkFolder) -> list[_Offer]:
    if not call.paths or not all(workspace.may_edit(path, call.cwd) for path in call.paths):
        return []
    reals = [real for path in call.paths for real in workspace.reals(path, call.cwd)]
    label = ", ".join(os.path.relpath(real, workspace.root) for real in dict.fromkeys(reals))
    rules = [_rule(category="edit", path=escaped(real)) for real in dict.fromkeys(reals)]
    # A call with several files needs one rule that covers all of them: only single files are offered.
    return [(ALWAYS, f"edits of {label}", rules)] if len(rules) == 1 and len(label) <= LONGEST_LABEL else []


def _read_offers(call: ProposedCall, workspace: WorkFolder) -> list[_Offer]:
    if len(call.paths) != 1:
        return []
    reals = workspace.reals(call.paths[0], call.cwd)
    if len(reals) != 1 or reals[0].startswith(NOT_FILES):
        return []
    [real] = reals
    folder = real if os.path.isdir(real) else os.path.dirname(real)
    is_private = any(name.startswith(".") for name in folder.split("/")) or folder in (
        "/",
        os.path.expanduser("~"),
        "/etc",
        "/home",
        "/root",
    )
    if not is_private:
        return [(ALWAYS, f"reading below {folder}", [_rule(category="read", path=f"{escaped(folder)}/")])]
    if os.path.isdir(real):
        return []
    return [(ALWAYS, f"reading {real}", [_rule(category="read", path=escaped(real))])]


def _exact_offers(call: ProposedCall) -> list[_Offer]:
    arguments = call.input if isinstance(call.input, dict) else {}
    params = {name: escaped(spelled(value)) for name, value in arguments.items()}
    # All of them: what is a mere remark to one tool (`title`) is what another one writes or sends.
    shown_input = {name: spelled(value) for name, value in arguments.items()}
    full_name = _with_server(call.tool, call.server)
    text = f"{full_name} with {_listed(shown_input)}" if shown_input else f"{full_name} without arguments"
    if len(text) > LONGEST_LABEL or not text.isprintable():
        return []
    rule = _rule(tool=escaped(call.tool), server=escaped(call.server), params=params or None, closed=True)
    return [(ALWAYS, text, [rule])]


def _acts_by_an_argument(call: ProposedCall) -> bool:
    arguments = call.input if isinstance(call.input, dict) else {"input": call.input}
    return any(
        any(part in name.lower() for part in _ACTS_BY) or _looks_like_a_place(value)
        for name, value in arguments.items()
    )


def _looks_like_a_place(value: object) -> bool:
    text = spelled(value)
    return text.startswith(("/", "~", "./", "../")) or "://" in text


def _with_server(tool: str, server: str) -> str:
    return f"{tool} (server {server})" if server else tool


def _listed(arguments: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {text}" for name, text in arguments.items())


def words_of(rule: Rule) -> str:
    """What a grant allows, as a list of grants shows it."""
    if rule.command:
        words = _shown_form(rule) if rule.command.endswith(FORM_END) else f"exactly: {rule.command}"
        return f"{words} in {literal(rule.path)}" if rule.path else words
    if rule.path:
        act = "reading" if rule.category == "read" else "edits"
        return f"{act} below {rule.path}" if rule.path.endswith("/") else f"{act} of {rule.path}"
    if rule.category:
        return f"everything of the category {rule.category}"
    full_name = _with_server(literal(rule.tool), literal(rule.server))
    if rule.params:
        return f"{full_name} with {_listed({name: literal(glob) for name, glob in rule.params.items()})}"
    return f"{full_name} without arguments" if rule.closed else f"{full_name}, whatever its arguments"


def _grant(rule: Rule) -> Grant:
    return convert(rule, Grant, from_attributes=True)


def rule_of(grant: Grant) -> Rule:
    """What a grant in the log allows."""
    return _rule(**{**asdict(grant), "options": tuple(grant.options)})
