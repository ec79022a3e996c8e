"""The shape of `lumbre.toml`: sections, types, ranges, defaults. `runtime.settings` reads; this only says what is
right.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

Seconds = Annotated[float, Field(gt=0, le=86_400)]
UpstreamId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

RESERVED_IDS = frozenset({"A", "B", "C", "batch", "express", "global", "embedded", "command", "mesh", "tier-c"})


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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


class UpstreamSection(Section):
    """One OpenAI-compatible server that tier A uses."""

    id: UpstreamId
    base_url: AnyHttpUrl
    model: str = ""
    """What `auto` asks for; empty: the first model the server lists."""
    api_key_env: str = ""
    slots: int = Field(default=64, ge=1, le=4096)
    """Requests at once; more wait in the gateway."""


class TierASection(Section):
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
    upstreams: tuple[UpstreamSection, ...] = ()

    @field_validator("upstreams")
    @classmethod
    def _ids_are_unique(cls, upstreams: tuple[UpstreamSection, ...]) -> tuple[UpstreamSection, ...]:
        seen: set[str] = set()
        for number, upstream in enumerate(upstreams):
            if upstream.id in RESERVED_IDS or upstream.id in seen:
                why = "reserved" if upstream.id in RESERVED_IDS else "used twice"
                where = {"within": (number, "id")}
                raise PydanticCustomError("upstream_id", f"the id {upstream.id!r} is {why}", where)
            seen.add(upstream.id)
        return upstreams

    @model_validator(mode="after")
    def _backend_has_what_it_needs(self) -> "TierASection":
        if self.backend == "openai" and not self.upstreams:
            raise ValueError('backend = "openai" needs at least one [[tier_a.upstreams]]')
        if self.backend == "command" and not self.command:
            raise ValueError('backend = "command" needs `command`, the line that starts your server')
        if self.backend == "command" and not any("{port}" in word for word in self.command):
            raise ValueError("command = [...] must say {port} where your server takes its port")
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
    """Failed probes in a row after which an upstream gets no work."""


class ModelsSection(Section):
    """Where model files are kept."""

    cache_dir: Path = Path("~/.cache/lumbre/models")


class Settings(Section):
    """The whole of `lumbre.toml`."""

    gateway: GatewaySection = GatewaySection()
    tier_a: TierASection = TierASection()
    deadlines: DeadlinesSection = DeadlinesSection()
    limits: LimitsSection = LimitsSection()
    breaker: BreakerSection = BreakerSection()
    models: ModelsSection = ModelsSection()
