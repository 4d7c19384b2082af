"""Names in a folder that others obey: whoever edits them starts programs or widens rights.

A name belongs here if someone obeys it by starting a program, or by asking less, while the user does no more than
what they do anyway: open the folder, start an agent, run git. Not here: instructions for models (AGENTS.md, CLAUDE.md),
what the user starts by name (Makefile, package.json, tests), what asks after each change (.envrc), and
.gitattributes, which names filters but does not define them.

One table for all who ask: `decide` (such a file is not edited unasked), the sandbox (it cannot be changed there) and
`trust` (an agent is not started on settings that nobody has seen).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache

from harness.system.file_names import FOLDS_CASE

READ_BY_BUN = (
    "bunfig.toml",
    ".env",
    ".env.local",
    *(f".env.{name}{end}" for name in ("development", "production", "test") for end in ("", ".local")),
)
"""What a program that was compiled by Bun looks for where it starts, unless its maker has switched that off: programs that
are run before it, and variables.
"""
OBEYED: Mapping[str, tuple[str, ...]] = {
    "aider": (".aider.conf.yml", ".env"),
    "antigravity": (".agents", ".gemini"),
    "claude": (".claude", ".mcp.json"),
    "cline": (".cline", ".clinerules/hooks", *READ_BY_BUN),
    "codex": (".codex", ".agents/skills", ".agents/plugins"),
    "continue": (".continue",),
    "copilot": (
        ".github/hooks",
        ".github/copilot",
        ".github/lsp.json",
        ".github/mcp.json",
        ".github/agents",
        ".github/skills",
        ".copilot",
        ".mcp.json",
        ".vscode/mcp.json",
        ".agents/skills",
        ".claude/agents",
        ".claude/commands",
        ".claude/skills",
    ),
    "cursor": (".cursor", ".mcp.json", ".claude"),
    "droid": (".factory", ".agents/hooks.json", ".agents/mcp.json", ".agents/skills", ".agent"),
    "gemini": (".gemini", ".agents/skills", ".env"),
    "goose": (".agents/plugins", ".agents/skills", ".goose", ".config/goose"),
    "grok": (
        ".grok",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".cursor/mcp.json",
        ".mcp.json",
    ),
    "kilo": (
        ".kilo",
        ".kilocode",
        ".kilocodemodes",
        "kilo.json",
        "kilo.jsonc",
        ".opencode",
        "opencode.json",
        "opencode.jsonc",
    ),
    "kimi": (".kimi-code", ".kimi", ".mcp.json"),
    "native": (
        ".harness/agents",
        ".harness/commands",
        ".harness/hooks.json",
        ".claude/agents",
        ".claude/commands",
        ".opencode/agent",
        ".opencode/agents",
        ".opencode/command",
        ".opencode/commands",
    ),
    "opencode": (".opencode", "opencode.json", "opencode.jsonc"),
    "pi": (".pi", ".agents/skills"),
    "qwen": (".qwen", ".env", ".agents/skills"),
}
"""Agent → the names that it obeys, with all that is below them, at the top of its folder."""
HEEDS_FILES_ALONE = frozenset({"native"})
"""Agents for which settings of git count only beside files of their own: they start no git by themselves."""
OTHER_AGENTS = (
    ".agents",
    ".amp",
    ".roo",
    ".roomodes",
    ".windsurf",
)
EDITORS = (
    ".vscode",
    ".idea",
    ".devcontainer",
    ".devcontainer.json",
    ".zed",
    ".fleet",
)
OURS = ("harness.toml", ".harnessrc.toml", ".harness")
GIT = ".git"
EDITED_BY_QUESTION = (
    ".gitmodules",
    ".husky",
    ".githooks",
    ".pre-commit-config.yaml",
    "lefthook*",
    ".lefthook*",
    ".hg",
    ".jj",
    ".sl",
    "*.code-workspace",
    ".nvim.lua",
    ".nvimrc",
    ".lvimrc",
    ".exrc",
    ".dir-locals.el",
    ".emacs",
    ".emacs.d",
    ".helix",
    ".vim",
    ".vimrc",
    ".config/nvim",
    ".bashrc",
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".config/fish",
    ".inputrc",
    ".tmux.conf",
    ".screenrc",
    ".ssh",
    ".gitconfig",
    ".config/git",
    ".config/autostart",
    ".config/environment.d",
    ".config/systemd",
    ".local/bin",
    ".pam_environment",
    ".xinitrc",
    ".xprofile",
    ".xsession*",
    "Library/LaunchAgents",
    ".npmrc",
    ".yarn",
    ".yarnrc*",
    ".pnpmfile.cjs",
    ".cargo/config*",
    ".gradle/init*",
    ".mise*",
    "mise.toml",
    "mise.*.toml",
    ".config/mise*",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    ".venv",
    "venv",
    ".tox",
    ".nox",
    "node_modules",
    ".pnp.*",
    ".claude-plugin",
    ".amazonq",
    ".augment",
    ".openhands",
    ".Rprofile",
    ".gdbinit",
    ".lldbinit",
    ".crush",
    ".crush.json",
    "crush.json",
    ".junie",
    ".kiro",
    ".trae",
    ".config/harness",
    ".local/share/harness",
)
"""Hooks that others install, start files of editors, shells and sessions (a home may be the folder), keys that let others
in, settings of tools and of agents that are not ours to start, packages that are installed (an editor starts programs of
them, and no diff shows a change). A sandbox cannot close them: where they are absent, what stands in for them would break the tools that look for them."""
_OPEN_IN_A_SANDBOX = frozenset({*READ_BY_BUN, ".vscode/mcp.json"})
_INSTRUCTIONS = frozenset({".claude/claude.md"})
"""Text for models below a name of the table."""
_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)
"""macOS reads a name without these characters."""


def is_protected(path: str, *, folds_case: bool = FOLDS_CASE) -> bool:
    """Whether a path, from the folder on, is one that an agent, an editor, a shell, git or Harness obeys.

    Names count at any depth, since who opens a folder below, or a repository there, obeys them too. So does a folder
    above a name of the table, which may be put there with the name in it.
    """
    parts = [_plain(part, folds_case=folds_case) for part in path.split("/") if part not in ("", ".")]
    return any(_is_obeyed(parts[start:], pattern) for start in range(len(parts)) for pattern in _patterns())


def closed_names() -> dict[str, str]:
    """Names that a sandbox closes → who obeys them; none is below another."""
    closed: dict[str, str] = {GIT: "git"}
    groups = {"Harness": OURS, "editors": EDITORS, "agents": OTHER_AGENTS, **OBEYED}
    for who, names in groups.items():
        for name in names:
            if name not in _OPEN_IN_A_SANDBOX:
                closed[name] = f"{closed[name]}, {who}" if name in closed else who
    return {name: who for name, who in closed.items() if not any(above in closed for above in _above(name))}


def _above(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


@cache
def _patterns() -> tuple[tuple[str, ...], ...]:
    names = (GIT, *OURS, *OTHER_AGENTS, *EDITORS, *EDITED_BY_QUESTION)
    everything = dict.fromkeys((*names, *(name for obeyed in OBEYED.values() for name in obeyed)))
    return tuple(tuple(name.split("/")) for name in everything)


def _is_obeyed(parts: list[str], pattern: tuple[str, ...]) -> bool:
    if not all(fnmatchcase(part, name_pattern) for part, name_pattern in zip(parts, pattern, strict=False)):
        return False
    return "/".join(parts).casefold() not in _INSTRUCTIONS


def _plain(part: str, *, folds_case: bool) -> str:
    """As the file system compares names."""
    part = unicodedata.normalize("NFC", part)
    if not folds_case:
        return part
    # Windows drops dots and blanks at the end, and what follows a colon is another stream of the same file.
    return part.translate(_IGNORED_BY_HFS).partition(":")[0].rstrip(". ").casefold() or part
