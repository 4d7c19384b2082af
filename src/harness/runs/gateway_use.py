"""Whether the settings put a gateway between an agent program and its model (`[gateway]`), where nobody said so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.agents.registry import load as load_agent
from harness.agents.registry import load_part
from harness.config.files import load
from harness.contracts.agent import Agent
from harness.contracts.pointing import Pointing
from harness.contracts.request import GatewayOptions, Request
from harness.errors import UsageError
from harness.process.version_probe import parse_version

if TYPE_CHECKING:
    from harness.runs.gateway_plan import GatewayPlan


def with_settings(agent: Agent, request: Request, environ: Mapping[str, str]) -> Request:
    """The request with what the settings say of gateways; what it says itself comes first.

    Raises BadConfig for a setting that is wrong.
    """
    is_wanted = request.gateway is not None or bool(request.sealed)
    if request.recording or (agent.work is not None and not is_wanted):
        return request
    settings = load(request.cwd, environ)
    use = settings.value("gateway.use")
    if not is_wanted and (use == "never" or (use == "keys" and not _has_key(agent, request, environ))):
        return request
    options = request.gateway or GatewayOptions()
    if not options.recording and settings.value("gateway.bodies") == "none":
        options = replace(options, keeps_bodies=False)
    if not options.recording and not options.models:
        options = replace(options, models=settings.texts_below("gateway.models"))
    sealed = request.sealed or ("write" if settings.value("gateway.seal") and not options.recording else "")
    if sealed and not options.allow_hosts:
        options = replace(options, allow_hosts=tuple(settings.value("gateway.allow") or ()))
    return replace(request, gateway=options, sealed=sealed)


def loses_home(request: Request, environ: Mapping[str, str]) -> bool:
    """Whether the agent's home ends with its process: it cannot be told then to resume a session of its own."""
    agent = load_agent(request.agent)
    pointing: Pointing | None = load_part(agent.name, "gateway") if agent.work is None else None
    if pointing is None:
        return False
    options = with_settings(agent, request, environ).gateway
    return options is not None and (options.own_home or bool(pointing.not_beside))


def through_gateway(
    agent: Agent, request: Request, version: str, environ: Mapping[str, str]
) -> tuple[Request, GatewayPlan | None, Mapping[str, str]]:
    """The request, pointed at a gateway, and an environment without keys; where one is wanted.

    Raises UsageError where that cannot be done.
    """
    if request.gateway is None and not request.sealed:
        return request, None, environ
    from harness.runs.gateway_plan import plan_gateway, without_keys  # only here: most runs have none

    request = replace(request, gateway=request.gateway or GatewayOptions())
    if request.resume and loses_home(request, environ):
        raise UsageError(
            f"{agent.title} has a home of its own behind a gateway, which ends with it: it cannot resume a session",
            hint="run without --gateway, or let it begin anew: harness hand-over ID --to " + agent.name,
        )
    request, plan = plan_gateway(agent, request, parse_version(version), {**environ, **request.env})
    # What the caller sets by name is the agent's; what points it at the gateway is not to be undone.
    request = replace(request, env={**request.env, **plan.config.env})
    return request, plan, without_keys(environ, plan, agent)


def _has_key(agent: Agent, request: Request, environ: Mapping[str, str]) -> bool:
    """Whether it can be run through a gateway beside the user's own settings, with a key that is there."""
    pointing: Pointing | None = load_part(agent.name, "gateway")
    if pointing is None or pointing.not_beside or (pointing.needs_model and not request.model):
        return False
    from harness.models.registry import PROVIDERS  # only here: it brings all that asks a model

    provider, slash, _ = request.model.partition("/")
    provider_known = PROVIDERS.get(provider if slash and provider in PROVIDERS else pointing.provider)
    keys = provider_known.keys if provider_known is not None else ()
    return any(environ.get(name, "").strip() for name in keys)
