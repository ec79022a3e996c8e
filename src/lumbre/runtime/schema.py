"""The shape of `lumbre.toml`: sections, types, ranges, defaults. `runtime.settings` reads; this only says what is
right.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lumbre.gateway.aliases import TIERS
from lumbre.gateway.hints import MODEL_TIERS
from lumbre.gateway.policy import PolicyName
from lumbre.gateway.sensitive import Finder
from lumbre.gateway.switches import RESERVED

Seconds = Annotated[float, Field(gt=0, le=86_400)]
UpstreamId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

Endpoint = Literal["chat/completions", "completions", "embeddings", "messages"]
"""What an upstream can be asked at, below `/v1`."""

RESERVED_IDS = RESERVED | {"embedded", "command", "mesh", "tier-c"}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AbilitySection(Section):
    """What an upstream can do, where it does not say so itself or says it wrongly."""

    tools: bool | None = None
    """It takes `tools`. None, here and below: what it says of itself."""
    images: bool | None = None
    json_schema: bool | None = None
    """It holds an answer to a schema."""
    endpoints: tuple[Endpoint, ...] = ()
    """Empty: what it says of itself, or all but `messages`."""


class GatewaySection(Section):
    """Where the gateway listens and keeps its state."""

    host: str = "127.0.0.1"
    port: int = Field(default=8484, ge=0, le=65_535)
    state_dir: Path = Path("~/.local/state/lumbre")
    allowed_hosts: tuple[str, ...] = ()
    """Host names, besides this machine's own, that may stand in a request's Host header."""
    allowed_origins: tuple[str, ...] = ()
    """Web origins, such as `https://chat.example`, whose pages may call the gateway."""
    keepalive_s: float = Field(default=10, gt=0, le=15)
    """Seconds of silence in a stream after which a comment line is sent."""


class UpstreamSection(AbilitySection):
    """One OpenAI-compatible server that tier A uses."""

    id: UpstreamId
    base_url: AnyHttpUrl
    model: str = ""
    """What `auto` asks for; empty: the first model the server lists."""
    api_key_env: str = ""
    slots: int = Field(default=64, ge=1, le=4096)
    """Requests at once; more wait in the gateway."""
    context_tokens: int = Field(default=0, ge=0, le=4_194_304)
    """Prompt and answer together. 0: what it says of itself."""


class NodeSection(UpstreamSection):
    """One machine of tier B, which speaks OpenAI's API."""

    labels: Annotated[tuple[Literal["batch", "express"], ...], Field(min_length=1)]
    """The classes of work that it takes."""
    provider: Literal["static"] = "static"
    """Who starts and stops it: `static`, somebody else keeps it up."""
    usd_per_hour: float = Field(default=0, ge=0, le=10_000)
    """What its time costs; counted while it works."""


_Some = TypeVar("_Some", bound=UpstreamSection)


def _unlike(upstreams: tuple[_Some, ...]) -> tuple[_Some, ...]:
    seen: set[str] = set()
    for number, upstream in enumerate(upstreams):
        if upstream.id in RESERVED_IDS or upstream.id in seen:
            why = "reserved" if upstream.id in RESERVED_IDS else "used twice"
            where = {"within": (number, "id")}
            raise PydanticCustomError("upstream_id", f"the id {upstream.id!r} is {why}", where)
        seen.add(upstream.id)
    return upstreams


Upstreams = Annotated[tuple[UpstreamSection, ...], AfterValidator(_unlike)]
Nodes = Annotated[tuple[NodeSection, ...], AfterValidator(_unlike)]
Usd = Annotated[float, Field(ge=0, le=1_000_000)]


class TierASection(AbilitySection):
    """The organisation's own machine."""

    backend: Literal["embedded", "openai", "command"] = "embedded"
    model: str = "smollm2-135m-instruct"
    slots: int = Field(default=2, ge=1, le=256)
    context_tokens: int = Field(default=4096, ge=64, le=4_194_304)
    """Of each slot."""
    threads: int = Field(default=0, ge=0, le=1024)
    """0: the physical cores."""
    batch_tokens: int = Field(default=0, ge=0, le=8192)
    """Prompt tokens per step; a cancelled prompt stops after the step it is in. 0: 64 on a CPU, 1024 with a GPU."""
    boot_timeout_s: Seconds = 120
    strict_json: bool = False
    command: tuple[str, ...] = ()
    upstreams: Upstreams = ()

    @model_validator(mode="after")
    def _backend_has_what_it_needs(self) -> "TierASection":
        if self.backend == "openai" and not self.upstreams:
            raise ValueError('backend = "openai" needs at least one [[tier_a.upstreams]]')
        if self.backend == "command" and not self.command:
            raise ValueError('backend = "command" needs `command`, the line that starts your server')
        if self.backend == "command" and not any("{port}" in word for word in self.command):
            raise ValueError("command = [...] must say {port} where your server takes its port")
        return self


class TierBSection(Section):
    """The rented machines."""

    nodes: Nodes = ()
    daily_budget_usd: Usd | None = None
    """Of this tier alone. None: only `[flow] daily_budget_usd` counts."""


class TierCSection(AbilitySection):
    """The outside API. There is none without an address, a model and a key that is not empty."""

    api: Literal["openai", "anthropic"] = "openai"
    base_url: AnyHttpUrl | None = None
    model: str = ""
    api_key_env: str = ""
    api_key_file: Path | None = None
    """A file that holds nothing but the key."""
    direct: tuple[str, ...] = ()
    """Who may ask for it by name: models, `sha256:…` of a client's key, or `*` for everybody."""
    slots: int = Field(default=16, ge=1, le=4096)
    """Requests at once."""
    max_tokens: int = Field(default=4096, ge=1, le=1_048_576)
    """What a request is sent with that sets no limit to its answer: what is set aside for it has to be enough."""
    context_tokens: int = Field(default=0, ge=0, le=4_194_304)
    """Prompt and answer together. 0: not known."""
    usd_per_million_prompt: Usd = 5.0
    """What a million tokens of prompts cost. The defaults of both are high, so that a budget is kept."""
    usd_per_million_completion: Usd = 25.0
    daily_budget_usd: Usd | None = None
    """Of this tier alone. None: only `[flow] daily_budget_usd` counts."""
    redact: bool = False
    """Hide e-mail addresses, phone numbers, cards, IBANs and keys before a request leaves, and put them back after."""
    redact_patterns: dict[str, str] = {}
    """Name to regular expression: what else is to be hidden."""

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "TierCSection":
        if self.base_url is None:
            if self.model or self.api_key_env or self.api_key_file:
                raise ValueError("tier C needs `base_url`")
            return self
        if not self.model:
            raise ValueError("tier C needs `model`, what it is asked for")
        if not self.api_key_env and self.api_key_file is None:
            raise ValueError("tier C needs `api_key_env` or `api_key_file`")
        return self

    @field_validator("direct")
    @classmethod
    def _direct_names_somebody(cls, direct: tuple[str, ...]) -> tuple[str, ...]:
        for name in direct:
            if name in ("", "auto") or (name.startswith("sha256:") and not re.fullmatch(r"sha256:[0-9a-f]{64}", name)):
                raise ValueError(f"{name!r} is no model, `*`, or `sha256:` and the 64 digits of a key's hash")
        return direct

    @field_validator("redact_patterns")
    @classmethod
    def _patterns_are_some(cls, patterns: dict[str, str]) -> dict[str, str]:
        Finder(patterns)
        return patterns


class FlowSection(Section):
    """Where work goes that says nothing of it, and what may be spent."""

    policy: PolicyName = "balanced"
    closed: Literal["auto", "fall", "reject"] = "auto"
    """What a closed switch does to a request that does not say."""
    daily_budget_usd: Usd = 5.0
    """Of tiers B and C together, for each day of UTC."""


class EmbeddingsSection(Section):
    """Who makes embeddings."""

    backend: Literal["tier_a", "openai", "off"] = "tier_a"
    """`tier_a`: the embedded engine's model, in a process of its own, or tier A's upstreams or command."""
    model: str = ""
    """Empty: tier A's. With upstreams: what a request gets that leaves the model open."""
    context_tokens: int = Field(default=2048, ge=64, le=131_072)
    """The longest text that the embedded engine takes."""
    upstreams: Upstreams = ()

    @model_validator(mode="after")
    def _backend_has_what_it_needs(self) -> "EmbeddingsSection":
        if self.backend == "openai" and not self.upstreams:
            raise ValueError('backend = "openai" needs at least one [[embeddings.upstreams]]')
        return self


class DeadlinesSection(Section):
    """The five deadlines of a request and the drain limit, in seconds."""

    connect_s: Seconds = 5
    header_s: Seconds = 300
    first_token_s: Seconds = 300
    idle_s: Seconds = 60
    total_s: Seconds = 1800
    drain_s: Seconds = 600


class LimitsSection(Section):
    """What the gateway takes in at most."""

    body_bytes: int = Field(default=33_554_432, ge=1024, le=1_073_741_824)
    reply_bytes: int = Field(default=67_108_864, ge=1024, le=1_073_741_824)
    """A plain JSON reply of an engine; streams have no such limit."""
    body_s: Seconds = 60
    """Until a request's body is whole."""
    waiting: int = Field(default=64, ge=0, le=100_000)
    wait_s: Seconds = 60


class BreakerSection(Section):
    """How upstreams are probed."""

    probe_s: Seconds = 5
    failures: int = Field(default=3, ge=1, le=100)
    """Failed probes, or failed requests, in a row after which an upstream gets no work."""
    open_s: Seconds = 30
    """Until one request may try it again; twice as long each time that this fails."""
    most_open_s: Seconds = 600

    @model_validator(mode="after")
    def _grows(self) -> "BreakerSection":
        if self.most_open_s < self.open_s:
            raise ValueError("most_open_s is at least open_s")
        return self


def _alias_target(target: object) -> str | dict[str, str]:
    if isinstance(target, str) and target:
        if target.startswith("tier-") and target not in MODEL_TIERS:
            raise PydanticCustomError("alias_tier_name", "no such tier", {"names": ", ".join(MODEL_TIERS)})
        return target
    if not isinstance(target, Mapping) or not target:
        raise PydanticCustomError("alias_target", "no model, tier or table of models")
    for tier, model in target.items():
        if tier not in TIERS:
            raise PydanticCustomError("alias_tier", "no such tier", {"within": (tier,), "tiers": ", ".join(TIERS)})
        if not isinstance(model, str) or not model or (model in MODEL_TIERS and model != "auto"):
            raise PydanticCustomError("alias_model", "no model", {"within": (tier,)})
    return dict(target)


AliasPattern = Annotated[str, Field(min_length=1)]
AliasTarget = Annotated[str | dict[str, str], PlainValidator(_alias_target)]


class ModelsSection(Section):
    """Where model files are kept, and what names stand for."""

    cache_dir: Path = Path("~/.cache/lumbre/models")
    alias: dict[AliasPattern, AliasTarget] = {}
    """Pattern to a model, to `auto` or a tier, or to a model for each tier."""


class ResponsesSection(Section):
    """What is kept of `/v1/responses`, for `previous_response_id` and for retrieval."""

    store: bool = True
    """False: nothing is kept, whatever a request says."""
    keep: int = Field(default=1000, ge=1, le=1_000_000)
    keep_bytes: int = Field(default=268_435_456, ge=1024, le=1_099_511_627_776)
    keep_s: float = Field(default=2_592_000, gt=0, le=315_360_000)
    """Seconds after which a conversation that nobody has gone on with is forgotten."""


class Settings(Section):
    """The whole of `lumbre.toml`."""

    gateway: GatewaySection = GatewaySection()
    tier_a: TierASection = TierASection()
    tier_b: TierBSection = TierBSection()
    tier_c: TierCSection = TierCSection()
    flow: FlowSection = FlowSection()
    embeddings: EmbeddingsSection = EmbeddingsSection()
    responses: ResponsesSection = ResponsesSection()
    deadlines: DeadlinesSection = DeadlinesSection()
    limits: LimitsSection = LimitsSection()
    breaker: BreakerSection = BreakerSection()
    models: ModelsSection = ModelsSection()

    @model_validator(mode="after")
    def _nodes_have_their_own_names(self) -> "Settings":
        taken = {upstream.id for upstream in self.tier_a.upstreams}
        for number, node in enumerate(self.tier_b.nodes):
            if node.id in taken:
                where = {"within": ("tier_b", "nodes", number, "id")}
                raise PydanticCustomError("node_id", f"the id {node.id!r} is one of tier A's upstreams too", where)
        return self
