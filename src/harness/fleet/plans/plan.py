"""What a fleet is to do: tasks × variants × repeats. Fixed once, when the fleet is created."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.contracts.request import FolderSettingsUse, GatewayOptions, Limits, Permissions, Request, Sealed
from harness.system import exact_json

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}")
WorkspaceKind: TypeAlias = Literal["auto", "clone", "worktree", "copy"]


class FleetTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One problem: a prompt, a workspace to work in, and a check that says whether it was solved."""

    id: str
    prompt: str
    workspace: str = ""
    """A folder that is copied; with `commit`, a Git repository. Empty: an empty folder."""
    commit: str = ""
    setup: str = ""
    """A shell command that prepares the workspace before the agent starts."""
    check: str = ""
    """A shell command that ends with 0 when the task is solved."""
    score_file: str = ""
    """A file of the workspace that the check writes: a number, or JSON of numbers by name."""
    files: dict[str, str] = {}
    """Put into the workspace only for the check: path there → path here."""
    env: dict[str, str] = {}
    check_env: dict[str, str] = {}
    """Variables of the check alone; `${NAME}` is that of the worker."""
    timeout_s: float | None = None
    setup_timeout_s: float = 1800.0
    check_timeout_s: float = 600.0
    image: str = ""
    """The container image that the task needs; empty: none."""
    context: str = ""
    """The folder with the Dockerfile from which `image` is built."""
    reward: str = ""
    """Where the check writes its verdict, in the container and outside of the workspace: this with `.json` or `.txt`.
    A reward of 1 is a solution; none at all is no verdict. Empty: the exit code of the check is the verdict."""
    workdir: str = ""
    """Where the agent works in the container; empty: where the image says."""
    cpus: float = 0.0
    memory_mb: float = 0.0
    """Of the container; 0: no limit."""
    needs_no_network: bool = False
    refusal: str = ""
    """What the task demands that cannot be kept: it is not run."""
    source: str = "plan"
    """The format it was read from: `plan`, `harbor`, `terminal-bench`, `swe-bench`."""
    metadata: dict[str, Any] = {}
    digest: str = ""
    """Changes with anything that could change the outcome; see `planning`."""


class Variant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One of the things that are compared: an agent with a model, settings, and files of the workspace."""

    name: str
    agent: str
    model: str = ""
    provider: str = ""
    """Whose slots its runs take; empty: those of the agent's name."""
    permissions: Permissions = "full-access"
    folder_settings: FolderSettingsUse = ""
    """Whether the agent obeys settings that the workspace brings; empty: if the task's folder is trusted for it, or with
    full access."""
    sandbox: bool = False
    gateway: bool = False
    """Its runs talk to their model through a gateway, which holds the key and records every call."""
    sealed: Sealed = ""
    """Through a gateway, and its runs reach nothing else, nor write but the workspace."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that sealed runs may reach besides, on port 443."""
    tape: str = ""
    """A recorded run (`harness sessions export`), whose answers come first: all its runs begin in the same state. Sealed."""
    fork_at: int | None = None
    """After so many of them the model goes on; None: the recording answers to its end."""
    effort: str = ""
    temperature: float | None = None
    max_output_tokens: int | None = None
    system_prompt: str = ""
    append_system_prompt: str = ""
    extra_args: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    env: dict[str, str] = {}
    binary: str = ""
    home: Literal["fresh", "user"] = "fresh"
    """`fresh`: an empty home for each run. `user`: that of the user, with its logins and settings."""
    without: tuple[str, ...] = ()
    """Files of the workspace that are left out; patterns."""
    added: dict[str, str] = msgspec.field(name="with", default_factory=dict)
    """Files that are added to the workspace: path there → path here."""
    digest: str = ""
    """Of the files that are added."""

    @property
    def gateway_options(self) -> GatewayOptions | None:
        if self.tape:
            source = os.path.basename(self.tape)
            return GatewayOptions(
                recording=self.tape, source=source, fork_at=self.fork_at, allow_hosts=self.allow_hosts
            )
        wants_one = self.gateway or bool(self.sealed)
        return GatewayOptions(allow_hosts=self.allow_hosts) if wants_one else None

    @property
    def slots_of(self) -> str:
        return self.provider or self.agent


class RunLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """For each run."""

    run_budget_usd: float | None = None
    timeout_s: float | None = None
    first_output_s: float | None = None
    inactivity_s: float | None = None
    max_turns: int | None = None


class CaseResources(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What a case needs of a machine, for engines that ask."""

    cpus: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    gpus: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    memory_mb: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    custom: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}


class ContainerSettings(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """For tasks that need an image."""

    mounts: dict[str, str] = {}
    """What the container has besides, for reading: path there → path here. For agents that are not in the image."""
    network: str = ""
    """As the engine names it: `none`, `host`; empty: its usual one."""


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    name: str
    tasks: tuple[FleetTask, ...]
    variants: tuple[Variant, ...]
    repeats: int = 1
    retries: int = 2
    """How often a case is attempted again when an attempt ends by no fault of the agent."""
    retry_wait_s: float = 15.0
    budget_usd: float | None = None
    providers: dict[str, int] = {}
    limits: RunLimits = RunLimits()
    resources: CaseResources = CaseResources()
    container: ContainerSettings = ContainerSettings()
    workspaces: WorkspaceKind = "auto"
    seed: int = 0
    directory: str = ""
    """Where it was planned: settings and prices are those that hold there."""
    sessions: str = ""
    """The store of the runs' logs: a folder or `postgresql://…`."""
    redact: bool = True
    hidden: tuple[str, ...] = ()
    """Where the hidden files of its tasks were read from: no agent may look there either."""
    digests: dict[str, str] = {}
    """Of what was copied when the fleet was created, by path: it is compared before it is used."""

    @cached_property
    def cases(self) -> dict[str, FleetCase]:
        """By id, in an order that is the same each time.

        All variants have a run of a task before any has the next, so that a fleet that ends early is a fair sample.
        """
        # Where the added files and the tape are is no part of a variant; what is in them is.
        variants = [
            (variant, exact_json.encode(replace(variant, added={}, tape=""))) for variant in self.variants
        ]
        blocks = [
            [
                FleetCase(_case_id(task, encoded, repeat), task, variant, repeat)
                for variant, encoded in variants
            ]
            for task in self.tasks
            for repeat in range(self.repeats)
        ]
        source = random.Random(self.seed)  # noqa: S311 # the same order for the same seed
        source.shuffle(blocks)
        for block in blocks:
            source.shuffle(block)
        return {case.id: case for block in blocks for case in block}


class FleetCase(NamedTuple):
    """One task for one variant, one of its repeats."""

    id: str
    task: FleetTask
    variant: Variant
    repeat: int

    @property
    def title(self) -> str:
        return f"{self.task.id} · {self.variant.name} · {self.repeat + 1}"

    def request(
        self, plan: FleetPlan, cwd: str, env: dict[str, str], hidden: tuple[str, ...] = ()
    ) -> Request:
        variant, limits = self.variant, plan.limits
        return Request(
            agent=variant.agent,
            prompt=self.task.prompt,
            cwd=cwd,
            model=variant.model,
            permissions=variant.permissions,
            folder_settings=variant.folder_settings,
            copy_of=self.task.workspace,
            sandbox=variant.sandbox,
            gateway=variant.gateway_options,
            sealed=variant.sealed or ("write" if variant.tape else ""),
            hidden=hidden,
            effort=variant.effort,
            temperature=variant.temperature,
            max_output_tokens=variant.max_output_tokens,
            system_prompt=variant.system_prompt,
            append_system_prompt=variant.append_system_prompt,
            extra_args=variant.extra_args,
            mcp=variant.mcp,
            env=env | self.task.env | variant.env,
            binary=variant.binary,
            name=self.title,
            tags=(f"fleet={plan.name}", f"case={self.id}"),
            limits=Limits(
                timeout_s=_sooner(self.task.timeout_s, limits.timeout_s),
                first_output_s=limits.first_output_s,
                inactivity_s=limits.inactivity_s,
                max_turns=limits.max_turns,
                max_budget_usd=limits.run_budget_usd,
            ),
        )


def variables_in(value: str) -> list[str]:
    """The names of `${NAME}` that have no default (`${NAME:-default}`)."""
    return [name for name, default in _VARIABLE.findall(value) if not default]


def with_variables(env: Mapping[str, str], source: Mapping[str, str]) -> dict[str, str]:
    """With every `${NAME}` replaced by that of `source`, or its default."""
    return {
        name: _VARIABLE.sub(lambda match: source.get(match[1]) or (match[2] or "")[2:], value)
        for name, value in env.items()
    }


def _case_id(task: FleetTask, variant: bytes, repeat: int) -> str:
    return sha256(b"%s\0%s\0%d" % (task.digest.encode(), variant, repeat)).hexdigest()[:12]


def _sooner(first_s: float | None, second_s: float | None) -> float | None:
    return min((limit_s for limit_s in (first_s, second_s) if limit_s is not None), default=None)


def encode(plan: FleetPlan) -> bytes:
    return exact_json.encode(plan)


def decode(data: bytes) -> FleetPlan:
    return exact_json.decode(data, FleetPlan)
