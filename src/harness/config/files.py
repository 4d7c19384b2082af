"""Where things are, and what the user has set: harness.toml, environment, XDG folders.

Precedence: flag, then environment, then the project's harness.toml, then the user's, then the default.
Older names still hold: `.harnessrc.toml` counts between the project's file and the user's.

A project's file comes with the project and may be hostile. By itself it can only narrow what the user allows;
everything else in it counts once the user trusts exactly this content (`trust`).

A file that cannot be read gives a warning and is left out. A value that is there but wrong is an
error: to guess could give an agent more rights than it was meant to have.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from harness.config.file_stamps import FileStamp, stamp_of
from harness.config.setting_kinds import KINDS
from harness.config.settings import TABLE, Setting, find, is_table
from harness.config.trust import digest_with_programs, read_trusted
from harness.errors import BadConfig

PROJECT_FILE, OLD_PROJECT_FILE, USER_FILE = "harness.toml", ".harnessrc.toml", "config.toml"
PROJECT_FILES = (PROJECT_FILE, OLD_PROJECT_FILE)
TRUST_FILE = "trusted.json"
_MOST_NAMED = 6
_LARGEST_BYTES = 4 << 20
_LIMITS = ("budget", "project_budgets")


def data_directory() -> str:
    """`$XDG_DATA_HOME/harness`: sessions."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def config_directory() -> str:
    """`$XDG_CONFIG_HOME/harness`: the user's config.toml."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def cache_directory() -> str:
    """`$XDG_CACHE_HOME/harness`: what can be found out again."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def sessions_directory() -> str:
    return os.path.join(data_directory(), "sessions")


def user_file() -> str:
    return os.path.join(config_directory(), USER_FILE)


def trust_file() -> str:
    """Which projects the user trusts."""
    return os.path.join(data_directory(), TRUST_FILE)


def trust_key(path: str) -> str:
    """A file by its place: a link to a file that is trusted elsewhere is not trusted here."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def project_files(directory: str) -> list[str]:
    """The project files that apply in a directory, the strongest first."""
    return [path for name in PROJECT_FILES if (path := _nearest(directory, name))]


def _xdg(variable: str, default: str) -> str:
    base = os.environ.get(variable, "")
    if not os.path.isabs(base):  # the XDG rules: relative paths are to be ignored
        base = os.path.join(_home(), default)
    return os.path.join(base, "harness")


def _home() -> str:
    """`$HOME`; where that is empty, what the system knows: an empty one would be the root of all files."""
    if os.environ.get("HOME"):
        return os.path.expanduser("~")
    import pwd  # only here: the variable is hardly ever missing

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.path.expanduser("~")


class ConfigProblem(NamedTuple):
    """Something in a file, or in the environment, that cannot be used."""

    place: str
    """File with line, or variable."""
    key: str
    message: str
    is_error: bool

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.key, self.message) if part)


class Layer(NamedTuple):
    """One place where settings come from. Keys are dotted."""

    path: str
    """Empty: the environment."""
    text: str
    values: dict[str, Any]
    problems: list[ConfigProblem]
    ignored: dict[str, Any]
    """What a project's file sets without being trusted."""
    digest: str = ""

    def place(self, key: str) -> str:
        """Where in this layer a key is set."""
        if not self.path:
            setting = find(tuple(key.split(".")))
            return f"${setting.environment}" if setting else ""
        line = _line_of(self.text, key)
        return f"{self.path}:{line}" if line else self.path


class Settings:
    """What holds, layer over layer."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers
        """The strongest first."""

    @property
    def problems(self) -> list[ConfigProblem]:
        return [problem for layer in self.layers for problem in layer.problems]

    @property
    def ignored(self) -> list[tuple[str, Any, str]]:
        """Key, value and place of what a project's file sets, and does not count."""
        return [
            (key, value, layer.place(key)) for layer in self.layers for key, value in layer.ignored.items()
        ]

    @property
    def project_path(self) -> str:
        """The harness.toml that counts; empty when there is none."""
        return next((layer.path for layer in self.layers if os.path.basename(layer.path) == PROJECT_FILE), "")

    def require_valid(self) -> None:
        """Raises BadConfig when some value is wrong."""
        errors = [str(problem) for problem in self.problems if problem.is_error]
        if errors:
            raise BadConfig("; ".join(errors), hint="`harness config show` lists all settings")

    def value(self, *keys: str) -> Any:
        """What the strongest layer says that has one of these keys, else the default of the first.

        Raises BadConfig when what it says is wrong.
        """
        for layer in self.layers:
            for key in keys:
                if key in layer.values:
                    return layer.values[key]
                _raise_if_wrong(layer, key)
        setting = find(tuple(keys[0].split(".")))
        return setting.default if setting else None

    def origin(self, key: str) -> str:
        """Where the value of a key comes from: file and line, variable, or `default`."""
        return next((layer.place(key) for layer in self.layers if key in layer.values), "default")

    def binary_for(self, agent_names: Iterable[str]) -> str:
        """The agent's program; a relative path is one from the folder of the file that says so."""
        keys = [f"agents.{name}.binary" for name in agent_names]
        binary = str(self.value(*keys) or "")
        if os.sep not in binary:
            return binary
        layer = next(layer for layer in self.layers for key in keys if key in layer.values)
        return os.path.join(os.path.dirname(layer.path), os.path.expanduser(binary))

    def model_for(self, agent_names: Iterable[str]) -> str:
        """In each layer an agent's own model goes before the model for all."""
        keys = (*(f"agents.{name}.model" for name in agent_names), "default_model")
        return str(self.value(*keys) or "")

    def extra_args(self, agent_names: Iterable[str]) -> list[str]:
        """Those of harness.toml; without them those of the older files together, the user's first."""
        keys = [f"agents.{name}.extra_args" for name in agent_names]
        layers = [(layer, layer.values[key]) for layer in self.layers for key in keys if key in layer.values]
        if layers and layers[0][0].path == self.project_path:
            return list(layers[0][1])
        return [argument for _, arguments in reversed(layers) for argument in arguments]

    def tables(self, name: str) -> dict[str, dict[str, Any]]:
        """All tables below a name: `models` → alias → fields. A table replaces a whole table."""
        merged: dict[str, dict[str, Any]] = {}
        for layer in reversed(self.layers):
            own: dict[str, dict[str, Any]] = {}
            for key, value in layer.values.items():
                first, _, rest = key.partition(".")
                if first == name and "." in rest:
                    table, _, field = rest.rpartition(".")  # an alias may have dots: gpt-5.1
                    own.setdefault(table, {})[field] = value
            merged.update(own)
        return merged

    def texts_below(self, name: str) -> tuple[tuple[str, str], ...]:
        """All values below a name, as they are written, the strongest layer first: pattern and text."""
        found: dict[str, str] = {}
        for layer in self.layers:
            for key, value in layer.values.items():
                if key.startswith(f"{name}."):
                    found.setdefault(key.removeprefix(f"{name}."), value)
        return tuple(found.items())

    def effective(self) -> dict[str, Any]:
        """Every key that has a value, table by table, in the order in which they are documented."""
        defaults = {setting.key: setting.default for setting in TABLE if setting.default is not None}
        keys = dict.fromkeys([*defaults, *(key for layer in self.layers for key in layer.values)])
        return {key: self._shown(key, defaults.get(key)) for key in sorted(keys, key=_rank)}

    def _shown(self, key: str, default: Any) -> Any:
        parts = key.split(".")
        if parts[0] == "agents" and parts[-1] == "extra_args":
            return self.extra_args([parts[1]])
        return next((layer.values[key] for layer in self.layers if key in layer.values), default)


def load(directory: str, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings that apply in `directory`. Never raises: see `problems`."""
    environ = os.environ if environ is None else environ
    own = own_settings()
    layers = [*own.layers]
    projects = project_files(directory)
    trusted, problem = read_trusted(trust_file()) if projects else ({}, "")
    for path in reversed(projects):
        layer = read_file(path, is_personal=False)
        if trusted.get(trust_key(path)) != layer.digest:
            _restrict(layer, own)
        layers.insert(0, layer)
    if problem:
        layers[0].problems.append(ConfigProblem(trust_file(), "", problem, is_error=False))
    if [os.path.basename(path) for path in projects] == [OLD_PROJECT_FILE]:
        message = f"is deprecated: call it {PROJECT_FILE} (`harness config init` writes a new one)"
        layers[0].problems.append(ConfigProblem(projects[0], "", message, is_error=False))
    return Settings([_from_environment(environ), *layers])


def has_limits(directory: str) -> bool:
    """Whether settings limit what runs in this directory may cost; a wrong one counts, too."""
    if not os.path.exists(user_file()) and not project_files(directory):
        return False  # no variable sets a limit: it is asked before every message
    for layer in load(directory).layers:
        keys = [*layer.values, *(problem.key for problem in layer.problems if problem.is_error)]
        if any(key.startswith(_LIMITS) for key in keys):
            return True
    return False


def window_setting(model: str, directory: str) -> int | None:
    """How many tokens settings say that a model can read, by its whole name or without its provider; None: nothing."""
    tables = load(directory).tables("context")
    names = (model, model.partition("/")[2])
    windows = (tables[name]["window"] for name in names if name in tables)
    return next(windows, None)


def own_settings() -> Settings:
    """What the user's own file says."""
    path = user_file()
    return Settings([read_file(path, is_personal=True)] if os.path.exists(path) else [])


def needing_trust(layer: Layer, own: Settings) -> dict[str, Any]:
    """What of a project's file gives more than the user's own settings do."""
    return {key: value for key, value in layer.values.items() if not _only_narrows(key, value, own)}


def _only_narrows(key: str, value: Any, own: Settings) -> bool:
    setting = find(tuple(key.split(".")))
    if setting is None or setting.narrows is None:
        return False
    own_value = next((layer.values[key] for layer in own.layers if key in layer.values), setting.default)
    return setting.narrows(value, own_value)


def _restrict(layer: Layer, own: Settings) -> None:
    from shlex import quote

    layer.ignored.update(needing_trust(layer, own))
    for key in layer.ignored:
        del layer.values[key]
    if layer.ignored:
        keys = [*layer.ignored]
        names = ", ".join(keys[:_MOST_NAMED])
        more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
        command = f"harness trust {quote(os.path.dirname(layer.path))}"
        message = (
            f"is not trusted, so this does not count: {names}{more} (to look at it and trust it: {command})"
        )
        layer.problems.append(ConfigProblem(layer.path, "", message, is_error=False))


def _nearest(directory: str, name: str) -> str:
    """The file in this directory or the closest one above it."""
    directory = os.path.abspath(directory).rstrip(os.sep)
    end = len(directory)
    while end >= 0:
        path = f"{directory[:end]}{os.sep}{name}"
        if os.path.isfile(path):
            return path
        end = directory.rfind(os.sep, 0, end)
    return ""


_WITH_VARIABLE = tuple(setting for setting in TABLE if setting.environment)


def _from_environment(environ: Mapping[str, str]) -> Layer:
    layer = Layer("", "", {}, [], {})
    for setting in _WITH_VARIABLE:
        if text := environ.get(setting.environment, ""):
            _take(layer, setting.key, KINDS[setting.kind].parse(text), setting)
    return layer


def read_toml(path: str) -> dict[str, Any]:
    """The tables of one file. Raises BadConfig, naming the file."""
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.loads(file.read().decode("utf-8-sig"))
    except OSError as error:
        raise BadConfig(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadConfig(f"{path} is not valid TOML: {error}") from error


def read_file(path: str, *, is_personal: bool) -> Layer:
    """Every setting in it, whether it counts or not. The caller may change the layer."""
    stamp = stamp_of(path)
    data, layer = (
        _parsed(path, is_personal=is_personal)
        if stamp is None
        else _parsed_once(path, stamp, is_personal=is_personal)
    )
    # Of the very bytes that count: the file may be another one by now. And each time: programs that it names may change
    # while it stays the same.
    digest = "" if is_personal or data is None else digest_with_programs(data, os.path.dirname(path))
    return layer._replace(
        digest=digest,
        values=dict(layer.values),
        problems=list(layer.problems),
        ignored=dict(layer.ignored),
    )


@lru_cache(maxsize=32)
def _parsed_once(path: str, stamp: FileStamp, *, is_personal: bool) -> tuple[bytes | None, Layer]:
    del stamp
    return _parsed(path, is_personal=is_personal)


def _content(path: str) -> bytes:
    """A pipe would be waited for, and a device has no end: a clone may have a link to either. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            trouble = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "It is not a file"
            raise OSError(errno.EINVAL, trouble)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(_LARGEST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > _LARGEST_BYTES:
        raise OSError(errno.EFBIG, f"It is larger than {_LARGEST_BYTES >> 20} MB")
    return data


def _parsed(path: str, *, is_personal: bool) -> tuple[bytes | None, Layer]:
    """Its content, None when it cannot be read, and what it sets."""
    import tomllib

    data = None
    layer = Layer(path, "", {}, [], {})
    trouble = ""
    try:
        data = _content(path)
        layer = layer._replace(text=data.decode("utf-8-sig"))
        tables = tomllib.loads(layer.text)
    except OSError as error:
        trouble = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        trouble = f"is not UTF-8 text: byte {error.start}"
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        trouble = f"is not valid TOML: {error or 'nested too deeply'}"
    if trouble:
        layer.problems.append(ConfigProblem(path, "", f"{trouble}; the file is ignored", is_error=False))
    else:
        _take_table(layer, tables, (), is_personal=is_personal)
    return data, layer


def _take_table(layer: Layer, table: Mapping[str, Any], above: tuple[str, ...], *, is_personal: bool) -> None:
    for name, value in table.items():
        path = (*above, name)
        key = ".".join(path)
        setting = find(path)
        if setting is not None and setting.source == "user" and not is_personal:
            message = f"only counts in {user_file()}; ignored here"
            layer.problems.append(ConfigProblem(layer.place(key), key, message, is_error=False))
        elif setting is not None:
            _take(layer, key, value, setting)
        elif not is_table(path):
            layer.problems.append(ConfigProblem(layer.place(key), key, _unknown(key), is_error=False))
        elif isinstance(value, dict):
            _take_table(layer, value, path, is_personal=is_personal)
        else:
            message = f"a table was expected, not {_described(value)}"
            layer.problems.append(ConfigProblem(layer.place(key), key, message, is_error=True))


def _take(layer: Layer, key: str, value: Any, setting: Setting) -> None:
    if setting.accepts(value):
        layer.values[key] = value
    else:
        message = f"{setting.expected} was expected, not {_described(value)}"
        layer.problems.append(ConfigProblem(layer.place(key), key, message, is_error=True))


def _raise_if_wrong(layer: Layer, key: str) -> None:
    for problem in layer.problems:
        if problem.is_error and (problem.key == key or key.startswith(f"{problem.key}.")):
            raise BadConfig(str(problem), hint="`harness config show` lists all settings")


def _described(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    kind = {"str": "the string", "bool": "the truth value"}.get(type(value).__name__, "the value")
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return f"{kind} {text if len(text) < 60 else text[:57] + '…'}"


def _unknown(key: str) -> str:
    from difflib import get_close_matches

    similar = get_close_matches(key, [setting.key for setting in TABLE], n=1)
    return "unknown setting; ignored" + (f" (did you mean {similar[0]}?)" if similar else "")


def _rank(key: str) -> tuple[int, str, int]:
    """Keys without a table first, then table by table."""
    table, _, _ = key.rpartition(".")
    keys = [setting.key.split(".") for setting in TABLE]
    same_section = [position for position, parts in enumerate(keys) if parts[0] == key.partition(".")[0]]
    setting = find(tuple(key.split(".")))
    own = TABLE.index(setting) if setting else len(TABLE)
    return (min(same_section, default=len(TABLE)) if table else -1, table, own)


def _line_of(text: str, key: str) -> int:
    """The line where a key is set in plain TOML; 0 when it is written in some unusual way."""
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = _plain(stripped.partition("]")[0].strip("["))
            if table == key:
                return number
        elif "=" in stripped:
            name = _plain(stripped.partition("=")[0])
            if key in (name, f"{table}.{name}"):
                return number
    return 0


def _plain(key: str) -> str:
    """`models . "a b"` → `models.a b`."""
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
