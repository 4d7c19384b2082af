"""Every setting there is, in one table: checking, `config show`, `config init` and the documents derive from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from harness.config.setting_kinds import KINDS

PERMISSION_SPELLINGS = {
    "full-access": "full-access",
    "full": "full-access",
    "yolo": "full-access",
    "default": "full-access",
    "read-only": "read-only",
    "readonly": "read-only",
    "plan": "plan",
    "agent-default": "agent-default",
    "ask": "ask",
    "accept-edits": "accept-edits",
}
_NARROW_FIRST = ("read-only", "plan", "ask", "agent-default", "accept-edits", "full-access")
LOG_LEVELS = ("error", "warn", "info", "debug")


_Source: TypeAlias = Literal["anyone", "trusted", "user"]
"""Which files may set something: any project's, as far as it narrows what holds without it; a project's that
the user trusts (`harness trust`); the user's own alone. Options and the environment are the user's own."""


def _is_no_wider(permissions: Any, than: Any) -> bool:
    modes = [PERMISSION_SPELLINGS[spelling] for spelling in (permissions, than)]
    return _NARROW_FIRST.index(modes[0]) <= _NARROW_FIRST.index(modes[1])


def _is_no_more(amount: Any, than: Any) -> bool:
    return than is None or bool(amount <= than)


def _is_no_quieter(level: Any, than: Any) -> bool:
    return LOG_LEVELS.index(level) >= LOG_LEVELS.index(than)


class Setting(NamedTuple):
    key: str
    """Dotted; a part in angle brackets matches any name."""
    kind: str
    source: _Source
    summary: str
    example: Any
    """For the template; `<agent>` in it is replaced by the name of an agent."""
    default: Any = None
    choices: tuple[str, ...] = ()
    environment: str = ""
    """The variable that sets it, over every file."""
    narrows: Callable[[Any, Any], bool] | None = None
    """Of what `anyone` may set: whether a value gives no more than another one does."""

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.choices)}" if self.choices else KINDS[self.kind].expected

    def accepts(self, value: Any) -> bool:
        return KINDS[self.kind].accepts(value) and (not self.choices or value in self.choices)


TABLE = (
    Setting(
        "default_agent",
        "text",
        "trusted",
        "The agent that runs when --agent is not given.",
        "<agent>",
        environment="HARNESS_AGENT",
    ),
    Setting(
        "default_model",
        "text",
        "trusted",
        "The model, by name or alias, when --model is not given.",
        "opus",
        environment="HARNESS_MODEL",
    ),
    Setting(
        "default_permissions",
        "text",
        "anyone",
        "What an agent may do: full-access, read-only, ask (before it changes or runs anything), accept-edits (ask, but "
        "edit files below the folder), plan (read-only until its plan is approved), or agent-default (whatever the agent "
        "itself is set to).",
        "full-access",
        default="full-access",
        choices=tuple(PERMISSION_SPELLINGS),
        environment="HARNESS_PERMISSIONS",
        narrows=_is_no_wider,
    ),
    Setting(
        "default_timeout_secs",
        "seconds",
        "anyone",
        "How long a run may take in all.",
        300,
        environment="HARNESS_TIMEOUT_SECS",
        narrows=_is_no_more,
    ),
    Setting(
        "log_level",
        "text",
        "anyone",
        "How much is written to standard error: error, warn, info or debug.",
        "warn",
        default="warn",
        choices=LOG_LEVELS,
        environment="HARNESS_LOG_LEVEL",
        narrows=_is_no_quieter,
    ),
    Setting(
        "log.directory",
        "text",
        "user",
        "Where sessions are stored, instead of the user's data directory.",
        "/var/lib/harness/sessions",
        environment="HARNESS_LOG_DIRECTORY",
    ),
    Setting(
        "log.redact",
        "flag",
        "user",
        "Mask secrets in everything that an agent writes, before it is stored or shown.",
        True,
        default=True,
        environment="HARNESS_LOG_REDACT",
    ),
    Setting(
        "histories.keep",
        "flag",
        "user",
        "Copy sessions that other programs have stored, before they delete them.",
        True,
        default=False,
        environment="HARNESS_HISTORIES_KEEP",
    ),
    Setting(
        "histories.serve",
        "text",
        "user",
        "Whether `harness serve` shows the sessions that agents have stored themselves: local (unless other machines "
        "can reach it), always or never.",
        "never",
        default="local",
        choices=("local", "always", "never"),
        environment="HARNESS_HISTORIES_SERVE",
    ),
    Setting(
        "tui.notify",
        "flag",
        "user",
        "`harness tui` rings the bell, notifies (OSC 9) and sets the title when something needs you or ends.",
        True,
        default=True,
        environment="HARNESS_TUI_NOTIFY",
    ),
    Setting(
        "undo.on",
        "flag",
        "user",
        "Record the files of a folder around each turn of an agent, so that `harness undo` can take the turn back.",
        True,
        default=True,
        environment="HARNESS_UNDO",
    ),
    Setting(
        "undo.mb",
        "megabytes",
        "user",
        "How much of one folder is kept for it; the oldest turns are removed first.",
        1024,
        default=1024,
    ),
    Setting(
        "gateway.use",
        "text",
        "user",
        "Whether agent programs talk to their models through a gateway: never, with each key that is in the environment, or"
        " always.",
        "keys",
        default="never",
        choices=("never", "keys", "always"),
        environment="HARNESS_GATEWAY",
    ),
    Setting(
        "gateway.seal",
        "flag",
        "user",
        "Whether all runs through a gateway are sealed, as with --sealed.",
        True,
        default=False,
    ),
    Setting(
        "gateway.allow",
        "texts",
        "user",
        "Hosts that sealed runs may reach besides their models, on port 443, as with --allow-host.",
        ["packages.example.org"],
    ),
    Setting(
        "gateway.bodies",
        "text",
        "user",
        "Whether what was said to models is recorded (all), or only how much (none): without it nothing can be replayed.",
        "none",
        default="all",
        choices=("all", "none"),
    ),
    Setting(
        "gateway.models.<asked>",
        "text",
        "user",
        "Which model answers, through a gateway, where an agent asks for one whose name fits this pattern: PROVIDER/NAME.",
        "ollama/qwen3",
    ),
    Setting(
        "notify.urls",
        "texts",
        "user",
        "Where `harness serve` sends word when a session needs you or ends: webhooks, or ntfy+https://HOST/TOPIC.",
        ["ntfy+https://ntfy.example.com/my-topic"],
    ),
    Setting(
        "serve.endpoints",
        "texts",
        "user",
        "Which other protocols `harness serve` speaks, as with --endpoint: acp, agui, openai.",
        ["openai"],
    ),
    Setting(
        *("otlp.url", "text", "user"),
        "The collector of OpenTelemetry that the spans and metrics of all runs are sent to, as with --otlp;"
        " `env`: the one that OTEL_EXPORTER_OTLP_ENDPOINT names.",
        "http://127.0.0.1:4318",
    ),
    Setting("otlp.content", "flag", "user", "Send texts, arguments and results to it as well.", True),
    Setting(
        "permissions.rules",
        "rules",
        "anyone",
        "What is always allowed, asked about or denied, for every agent (`harness permissions`). A project's file can"
        " only ask and deny.",
        [{"answer": "deny", "command": "git push"}],
        narrows=lambda _rules, _than: (
            True
        ),  # the rules of a project's file that allow are left out where they are read
    ),
    Setting(
        "budget.day_usd",
        "dollars",
        "user",
        "What all runs may cost in a day, in dollars (`harness budget`).",
        20.0,
    ),
    Setting("budget.month_usd", "dollars", "user", "What all runs may cost in a month.", 300.0),
    Setting(
        "budget.project_day_usd",
        "dollars",
        "anyone",
        "What the runs of one project may cost in a day. A project's own file can only lower it.",
        5.0,
        narrows=_is_no_more,
    ),
    Setting(
        "budget.project_month_usd",
        "dollars",
        "anyone",
        "What the runs of one project may cost in a month. A project's own file can only lower it.",
        60.0,
        narrows=_is_no_more,
    ),
    Setting(
        "project_budgets.<project>.day_usd",
        "dollars",
        "user",
        "What the runs in this folder may cost in a day, instead of `budget.project_day_usd`.",
        10.0,
    ),
    Setting(
        "project_budgets.<project>.month_usd",
        "dollars",
        "user",
        "What the runs in this folder may cost in a month, instead of `budget.project_month_usd`.",
        100.0,
    ),
    Setting(
        "limits.at_limit",
        "text",
        "anyone",
        "What happens when a window of a subscription is full: a person continues (ask), the conversation continues by"
        " itself, once, when the window opens again (resume), or `harness run` lets another agent continue (hand-over).",
        "resume",
        default="ask",
        choices=("ask", "resume", "hand-over"),
        narrows=lambda value, _than: value == "ask",
    ),
    Setting(
        "limits.hand_over", "texts", "user", "Who continues with `hand-over`: the first with room.", ["codex"]
    ),
    Setting(
        "limits.max_windows",
        "count",
        "anyone",
        "How many windows in a row it continues, without a message of yours.",
        2,
        default=2,
        narrows=_is_no_more,
    ),
    Setting(
        "limits.longest_secs",
        "seconds",
        "anyone",
        "A window that opens later than this is left to you.",
        21_600,
        default=21_600,
        narrows=_is_no_more,
    ),
    Setting(
        "limits.quiet", "text", "user", "Between these times of the day nothing is continued.", "23:00-07:00"
    ),
    Setting(
        "agents.<agent>.binary",
        "text",
        "trusted",
        "Path of the agent's program; a relative one begins at the folder of the file.",
        "/opt/<agent>/bin/<agent>",
    ),
    Setting(
        "agents.<agent>.acp",
        "text",
        "user",
        "What starts it, of an agent that speaks ACP and has this name here alone.",
        "my-agent --acp",
    ),
    Setting("agents.<agent>.model", "text", "trusted", "Its model when --model is not given.", "opus"),
    Setting(
        "agents.<agent>.extra_args",
        "texts",
        "trusted",
        "Arguments that it is always given, before those after `--`.",
        ["--verbose"],
    ),
    Setting(
        "runners.<runner>.url",
        "text",
        "user",
        "A sandbox runner (`harness runner`) that the agent `remote` may use, by this name.",
        "http://127.0.0.1:4810",
    ),
    Setting("runners.<runner>.token_file", "text", "user", "Where its token is.", "~/runner-token"),
    Setting(
        "runners.<runner>.agent", "text", "user", "The agent that runs there (default: native).", "<agent>"
    ),
    Setting(
        "runners.<runner>.cwd",
        "text",
        "user",
        "Its workspace there (default: the runner's own).",
        "/workspace",
    ),
    Setting(
        "models.<alias>.description",
        "text",
        "trusted",
        "What an alias of yours means.",
        "Our usual model",
    ),
    Setting("models.<alias>.provider", "text", "trusted", "Who makes the model.", "anthropic"),
    Setting(
        "models.<alias>.<agent>",
        "text",
        "trusted",
        "The name under which this agent knows it.",
        "some-model-id",
    ),
    Setting(
        "native.fallback_models",
        "texts",
        "trusted",
        "Models that the built-in agent asks, one after the other, where its own gives no answer.",
        ["openai/gpt-5.5"],
    ),
    Setting(
        "native.small_model",
        "text",
        "trusted",
        "A cheap model for sub-agents of the built-in agent that only look around (`explore`).",
        "anthropic/claude-haiku-4-5",
    ),
    Setting(
        "native.subagent_model",
        "text",
        "trusted",
        "The model of the built-in agent's sub-agents, where they name none (default: that of the agent).",
        "anthropic/claude-sonnet-4-6",
    ),
    Setting(
        "checks.<pattern>.command",
        "text",
        "trusted",
        "A command that looks at files which the built-in agent has changed, by a pattern of their names; {files} stands "
        "for them. What it prints when it fails is shown to the model.",
        "ruff check --quiet {files}",
    ),
    Setting(
        "context.<model>.window",
        "tokens",
        "trusted",
        "How many tokens a model can read: the conversation of the built-in agent is summed up before it has more.",
        32_768,
    ),
    Setting(
        "prices.<model>.input",
        "price",
        "trusted",
        "What a model costs, in dollars per million tokens: input that is not cached.",
        4.0,
    ),
    Setting("prices.<model>.cache_read", "price", "trusted", "Input that comes from the cache.", 0.4),
    Setting("prices.<model>.cache_write", "price", "trusted", "Input that goes into the cache.", 5.0),
    Setting("prices.<model>.output", "price", "trusted", "Output, and reasoning.", 20.0),
    Setting(
        "prices.<model>.cache_write_1h",
        "price",
        "trusted",
        "Input that goes into a cache for an hour (default: as `cache_write`).",
        8.0,
    ),
    Setting(
        "prices.<model>.fast", "price", "trusted", "By how much everything costs more in the fast mode.", 2.0
    ),
    Setting(
        "prices.<model>.long_from",
        "prompt size",
        "trusted",
        "The tokens of a prompt beyond which all tokens of the model call cost more.",
        200_000,
    ),
    Setting("prices.<model>.long_input", "price", "trusted", "By how much its input does then.", 2.0),
    Setting("prices.<model>.long_output", "price", "trusted", "By how much its output does then.", 1.5),
)


PRICE_FIELDS = {
    setting.key.rpartition(".")[2]: KINDS[setting.kind]
    for setting in TABLE
    if setting.key.startswith("prices.<model>.")
}
"""What a table of prices may hold, in whichever file it is."""


def find(path: tuple[str, ...]) -> Setting | None:
    """The setting of a key; an exact name goes before a placeholder."""
    return next((setting for setting in TABLE if _matches(setting.key.split("."), path)), None)


def is_table(path: tuple[str, ...]) -> bool:
    """Whether settings lie below this key."""
    return any(
        len(parts) > len(path) and _matches(parts[: len(path)], path)
        for parts in (setting.key.split(".") for setting in TABLE)
    )


def _matches(parts: list[str], path: tuple[str, ...]) -> bool:
    return len(parts) == len(path) and all(
        part == name or part.startswith("<") for part, name in zip(parts, path, strict=True)
    )


def template(agent: str, *, personal: bool) -> str:
    """A file with every setting in it, explained and commented out."""
    lines = [
        "# Settings of Harness. Remove a `#` to set something; `harness config show` prints the settings in effect."
    ]
    if not personal:
        lines.append(
            "# In a project most of it counts only once you have said `harness trust` here, after each change."
        )
    table = ""
    for setting in TABLE:
        if setting.source == "user" and not personal:
            continue
        path, _, name = setting.key.rpartition(".")
        if path != table:
            table = path
            lines += ["", f"# [{_example_names(path, agent)}]"]
        elif not table:
            lines.append("")
        value = to_toml(setting.example).replace("<agent>", agent)
        lines += [f"# {setting.summary}", f"# {_example_names(name, agent)} = {value}"]
    return "\n".join(lines) + "\n"


def _example_names(key: str, agent: str) -> str:
    names = {
        "<agent>": agent,
        "<asked>": '"*haiku*"',
        "<alias>": "my-model",
        "<model>": "some-model-id",
        "<pattern>": '"*.py"',
        "<project>": '"/home/me/project"',
        "<runner>": "my-runner",
    }
    for placeholder, name in names.items():
        key = key.replace(placeholder, name)
    return key


def to_toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key_to_toml(key)} = {to_toml(each)}' for key, each in value.items())} }}"
    return "".join(_toml_text(value)) if isinstance(value, str) else str(value)


def key_to_toml(key: str) -> str:
    """A key, quoted where it must be."""
    is_bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if is_bare else to_toml(key)


def _toml_text(text: str) -> Iterator[str]:
    yield '"'
    for character in text:
        if character in '"\\':
            yield "\\" + character
        elif character < " " or character == "\x7f":
            yield f"\\u{ord(character):04x}"
        else:
            yield character
    yield '"'
