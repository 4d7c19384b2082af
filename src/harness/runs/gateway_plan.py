"""What a run through a gateway needs, decided before anything starts: who answers, and how the agent is pointed there.

The address and the token of the gateway are known only when it listens. Until then marks stand for them in the
environment, the arguments and the files of the agent (`filled`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.agents.registry import load_part, names_with
from harness.contracts.agent import Agent, Version
from harness.contracts.fixture import (
    KEY,
    AgentFixture,
    LabContext,
    LaunchConfig,
    as_file,
    environment_of,
    fill_template,
)
from harness.contracts.model import Model
from harness.contracts.pointing import Pointing
from harness.contracts.request import GatewayOptions, Request
from harness.errors import HarnessError, UsageError
from harness.gateway.pass_on import Upstream
from harness.gateway.tunnels import require_host_names
from harness.log.raw import RawGateway
from harness.log.redact.redactor import secrets_in
from harness.models.failure import Retries
from harness.models.registry import (
    GATEWAY_KEY,
    GATEWAY_PROVIDER,
    GATEWAY_URL,
    PROVIDERS,
    key_headers,
    keyed_endpoint,
    open_model,
    usual_model,
)
from harness.models.wires.wire import all_wires
from harness.protocols.own_events import OwnEvents
from harness.runs.sealing import find_seal
from harness.sandbox.rungs import Rung
from harness.usage.run_cost import prices_of, require_price

URL_MARK = "http://gateway.harness.invalid"
KEY_MARK = "harness-gateway-key-mark"
FOLDER_MARK = "/harness-gateway-folder-mark"
HOME_MARK = f"{FOLDER_MARK}/home"
_OF_THE_USER = ("LC_ALL", "SHELL", "TZ")
"""What a home of its own does not change: agents tell their model of it, and commands say other words with it."""
_WITHOUT_COST = ("scripted", "local")
_VERSIONS = {"anthropic": "/v1", "gemini": "/v1beta"}


class ModelRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Another model for calls that ask for one whose name fits. Contract: that of `GatewayPlan`."""

    pattern: str
    provider: str
    model: str
    """`provider/model`."""
    upstream: Upstream | None = None
    open_model: Callable[[Retries], Model] | None = None
    model_key: str = ""

    @property
    def is_free(self) -> bool:
        return _is_free(self.provider)

    def __repr__(self) -> str:
        return f"ModelRoute({self.pattern!r})"


class GatewayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Contract: holds a key, and is therefore never written, nor shown."""

    mode: str
    """pass, translate, replay or fork."""
    options: GatewayOptions
    pointing: Pointing
    config: LaunchConfig
    """With marks."""
    has_own_home: bool
    upstream: Upstream | None = None
    """None: no provider is asked, or one of another API."""
    open_model: Callable[[Retries], Model] | None = None
    """The model that answers by translation."""
    model_key: str = ""
    """That of its provider."""
    provider: str = ""
    model: str = ""
    """`provider/model`, where another one answers than the agent asks for."""
    routes: tuple[ModelRoute, ...] = ()
    """Of the settings, the first that fits counts."""
    start: RawGateway
    agent: Agent
    seal: Rung | None = None
    """What seals it; None: nothing does."""
    asked: Request
    """As the caller asked, before the agent was pointed at the gateway."""

    @property
    def answering_model(self) -> str:
        """By the name that its provider knows; empty: the one that the program asks for."""
        return self.model.partition("/")[2]

    @property
    def is_free(self) -> bool:
        return _is_free(self.provider)

    def route_of(self, model: str) -> ModelRoute | None:
        """For calls that ask for this model; None: they are answered as ever."""
        return next((route for route in self.routes if fnmatchcase(model, route.pattern)), None)

    def __repr__(self) -> str:
        return f"GatewayPlan({self.mode!r})"


def _is_free(name: str) -> bool:
    """Whether what answers costs nothing: a script, or a model on a machine of the user's own."""
    provider = PROVIDERS.get(name)
    return name in _WITHOUT_COST or (provider is not None and provider.is_own_server)


def plan_gateway(
    agent: Agent, request: Request, version: Version, environ: Mapping[str, str]
) -> tuple[Request, GatewayPlan]:
    """The request as the agent gets it, and the plan. Raises UsageError for what cannot be done, before anything starts."""
    assert request.gateway is not None
    options = request.gateway
    require_host_names(options.allow_hosts)
    pointing = _pointing(agent, request, environ)
    request = request if options.recording or agent.work is None else replace(request, model=pointing.model)
    mode = "pass" if not options.recording else "replay" if options.fork_at is None else "fork"
    provider, name = _chosen(request.model, pointing)
    is_translated = _is_translated(provider, pointing)
    mode = "translate" if mode == "pass" and is_translated else mode
    has_own_home = options.own_home or bool(options.recording) or bool(pointing.not_beside)
    if options.passes_login:
        config = _with_login(agent, pointing, provider, name, is_alone=not (has_own_home or is_translated))
    elif has_own_home:
        config = _own_home(agent, pointing, request, version, name)
    else:
        # A name of another API means nothing to the agent: it asks for its usual model, and another one answers.
        config = _beside(agent, pointing, name if pointing.needs_model or not is_translated else "")
    source: dict[str, Any] = {}
    if mode != "replay" and is_translated:
        source = _translation(agent, provider, name, environ)
    elif mode != "replay":
        # In a home of its own the agent asks for the model of its fixture, whatever was chosen.
        source = {"model": f"{provider}/{name}" if has_own_home and name else ""}
        source["upstream"] = _upstream(provider, name, pointing, environ, with_login=options.passes_login)
    seal = find_seal(request.sealed, request.cwd) if request.sealed else None
    about: dict[str, Any] = {"seal": seal.name if seal is not None else "", "replayed_from": options.source}
    about |= {"home": "" if has_own_home else environ.get("HOME", ""), "commit": commit_of(request.cwd)}
    start = RawGateway(mode=mode, provider=provider, model=source.get("model", ""), **about)
    plan = GatewayPlan(
        mode=mode,
        options=options,
        pointing=pointing,
        config=config,
        has_own_home=has_own_home,
        provider=provider,
        **source,
        routes=() if options.recording else _routes(agent, pointing, options, environ),
        start=start,
        agent=agent,
        seal=seal,
        asked=request,
    )
    args = (*request.extra_args, *config.args, *(pointing.sealed_args if seal is not None else ()))
    _require_price(request, plan, name)
    return replace(request, model=config.model, extra_args=args), plan


def _require_price(request: Request, plan: GatewayPlan, name: str) -> None:
    """A limit of money that could not hold is refused before anything starts, where it is known what will be asked: a short
    name, such as `sonnet`, is only known to the agent. Raises UsageError.
    """
    limit_usd = request.limits.max_budget_usd
    is_exact = bool(plan.model) or request.model.startswith(f"{plan.provider}/")
    if limit_usd is not None and name and is_exact and plan.mode != "replay" and not plan.is_free:
        require_price(prices_of(request.cwd, must_hold=True), name, limit_usd)


def _pointing(agent: Agent, request: Request, environ: Mapping[str, str]) -> Pointing:
    if agent.translator is OwnEvents:
        return _own_pointing(request, environ)
    pointing: Pointing | None = load_part(agent.name, "gateway")
    if pointing is not None:
        return pointing
    raise UsageError(
        f"{agent.title} cannot be pointed at a gateway",
        hint=f"these can: {', '.join(names_with('gateway'))}",
    )


def _own_pointing(request: Request, environ: Mapping[str, str]) -> Pointing:
    """A built-in agent asks a model of any API. It keeps its own, whoever answers in its place. Raises UsageError."""
    assert request.gateway is not None
    model = request.gateway.recorded_model or request.model or usual_model(environ)
    provider, slash, name = model.partition("/")
    if not (slash and name):
        raise UsageError(
            f"{model!r} is not the name of a model" if model else "no model was named",
            hint="give one with --model PROVIDER/NAME; `harness models` shows the providers",
        )
    wire = PROVIDERS[provider].wire if provider in PROVIDERS else "chat"
    env = {GATEWAY_URL: "{url}", GATEWAY_KEY: "{key}", GATEWAY_PROVIDER: provider}
    return Pointing(wire=wire, provider=provider, env=env, model=model)


def _chosen(model: str, pointing: Pointing) -> tuple[str, str]:
    """Provider and model: `provider/model`, or a name that the agent's own provider knows."""
    provider, slash, name = model.partition("/")
    if slash and (provider in PROVIDERS or provider in _WITHOUT_COST):
        return provider, name
    return pointing.provider, model


def _is_translated(provider: str, pointing: Pointing) -> bool:
    return provider not in PROVIDERS or PROVIDERS[provider].wire != pointing.wire


def _translation(agent: Agent, provider: str, name: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """What a plan has of a model that answers by translation. Raises UsageError where it cannot be used here."""
    if not name:
        raise UsageError(
            f"{agent.title} and {provider} speak different APIs: name the model that is to answer",
            hint=f"give it with --model {provider}/NAME",
        )
    opener = partial(_opened, f"{provider}/{name}", dict(environ))
    opener(Retries())  # so that it is said now what is missing
    key = keyed_endpoint(provider, name, environ)[0].key if provider in PROVIDERS else ""
    return {"open_model": opener, "model_key": key, "model": f"{provider}/{name}"}


def _routes(
    agent: Agent, pointing: Pointing, options: GatewayOptions, environ: Mapping[str, str]
) -> tuple[ModelRoute, ...]:
    """Raises UsageError where a model cannot be used here: it would be found out in the middle of a run."""
    return tuple(_route(agent, pointing, pattern, name, environ) for pattern, name in options.models)


def _route(
    agent: Agent, pointing: Pointing, pattern: str, full_name: str, environ: Mapping[str, str]
) -> ModelRoute:
    provider, slash, name = full_name.partition("/")
    if not (slash and name) or provider not in (*PROVIDERS, *_WITHOUT_COST):
        raise UsageError(
            f"gateway.models: {full_name!r}, for {pattern!r}, is not the name of a model",
            hint="write PROVIDER/NAME; `harness models` shows the providers",
        )
    if _is_translated(provider, pointing):
        source = _translation(agent, provider, name, environ)
    else:
        source = {"model": full_name}
        source["upstream"] = _upstream(provider, name, pointing, environ, with_login=False)
    return ModelRoute(pattern=pattern, provider=provider, **source)


def _opened(name: str, environ: Mapping[str, str], retries: Retries) -> Model:
    return open_model(name, environ, retries=retries)


def _with_login(
    agent: Agent, pointing: Pointing, provider: str, model: str, *, is_alone: bool
) -> LaunchConfig:
    """Raises UsageError where a log-in would go elsewhere than to the vendor that gave it."""
    if pointing.login is None:
        names = [name for name in names_with("gateway") if load_part(name, "gateway").login is not None]
        raise UsageError(
            f"a log-in of {agent.title} cannot be passed on",
            hint=f"use a key: run with --gateway alone; these have log-ins: {', '.join(names)}",
        )
    if provider != pointing.provider or not is_alone:
        raise UsageError(
            "a log-in is passed on to the vendor that gave it, and used for nothing else",
            hint="name no other provider, and use a key for replays that ask a model",
        )
    values = {"url": f"{URL_MARK}/{KEY_MARK}"}
    return LaunchConfig(
        env=fill_template(pointing.login.env, values),
        args=tuple(fill_template(word, values) for word in pointing.login.args),
        model=model,
    )


def _upstream(
    provider: str, name: str, pointing: Pointing, environ: Mapping[str, str], *, with_login: bool
) -> Upstream:
    """Raises UsageError when there is no key."""
    base_path = all_wires()[pointing.wire].base_path
    if with_login and pointing.login is not None:
        return Upstream(url=pointing.login.host, base_path=base_path, passes_login=True)
    endpoint, key_variable = keyed_endpoint(provider, name, environ)
    # The paths of these APIs begin with their version, and addresses may end with it.
    version = _VERSIONS.get(pointing.wire, "")
    return Upstream(
        url=endpoint.url.removesuffix(version),
        key_headers=key_headers(provider, endpoint, key_variable),
        base_path=base_path,
    )


def _own_home(
    agent: Agent, pointing: Pointing, request: Request, version: Version, model: str
) -> LaunchConfig:
    """By the tables with which the lab runs it; an agent without any needs no more than beside the user's settings."""
    own_model = request.gateway.recorded_model if request.gateway is not None else ""
    fixture: AgentFixture | None = load_part(agent.name, "lab")
    context = LabContext(url=URL_MARK, home=HOME_MARK, cwd=request.cwd, version=version)
    if fixture is None:
        config = _beside(agent, pointing, own_model or model)
    else:
        config = fixture.launch(context)
        config = replace(config, model=own_model or config.model)
    # For the lab it does not matter which key is sent: here it does.
    marked: LaunchConfig = _replaced(config, {KEY: KEY_MARK})
    env = {name: text for name, text in environment_of(context).items() if name not in _OF_THE_USER}
    return replace(marked, env={**env, **marked.env})


def _beside(agent: Agent, pointing: Pointing, model: str) -> LaunchConfig:
    if pointing.needs_model and not model:
        raise UsageError(
            f"{agent.title} needs the name of a model to be run through a gateway",
            hint="give one with --model PROVIDER/NAME, such as openrouter/qwen/qwen3-coder",
        )
    values = {"url": URL_MARK, "key": KEY_MARK, "folder": FOLDER_MARK, "model": model}
    return LaunchConfig(
        env=fill_template(pointing.env, values),
        files={path: as_file(fill_template(content, values)) for path, content in pointing.files.items()},
        args=tuple(fill_template(word, values) for word in pointing.args),
        model=fill_template(pointing.model, values) if pointing.model else "",
    )


def without_keys(environ: Mapping[str, str], plan: GatewayPlan, agent: Agent) -> dict[str, str]:
    """An environment without anything that holds a key: the agent has no use for one."""
    keys = {name for provider in PROVIDERS.values() for name in (*provider.keys, *provider.urls)}
    hidden = {*keys, *agent.key_variables, *plan.pointing.unset, *secrets_in(environ)}
    if plan.options.passes_login and plan.pointing.login is not None:
        hidden -= set(plan.pointing.login.keeps)
    return {name: value for name, value in environ.items() if name not in hidden}


def filled(value: Any, url: str, key: str, folder: str) -> Any:
    """The same with the address, the token and the folder in place of their marks."""
    return _replaced(value, {URL_MARK: url, KEY_MARK: key, FOLDER_MARK: folder})


def _replaced(value: Any, marks: Mapping[str, str]) -> Any:
    match value:
        case str():
            for mark, text in marks.items():
                value = value.replace(mark, text)
            return value
        case tuple():
            return tuple(_replaced(item, marks) for item in value)
        case LaunchConfig():
            return LaunchConfig(
                env=_replaced(dict(value.env), marks),
                files=_replaced(dict(value.files), marks),
                args=_replaced(value.args, marks),
                model=value.model,
            )
        case dict():
            return {name: _replaced(item, marks) for name, item in value.items()}
    return value


def commit_of(cwd: str) -> str:
    """The commit of the workspace; empty where it is no repository."""
    if not os.path.lexists(os.path.join(cwd, ".git")):
        return ""
    from harness.workspace.git_calls import GitCalls

    try:
        return GitCalls(cwd).ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
    except (HarnessError, OSError):
        return ""
