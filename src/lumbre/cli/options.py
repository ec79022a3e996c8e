"""Decides what flags the commands share and what `up` was asked. Pure; `main` fills these in."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

# The help texts here are message ids; `main` puts the text of the chosen language in their place.
Json = Annotated[bool, typer.Option("--json", help="opt.json")]
Config = Annotated[Path | None, typer.Option("--config", help="opt.config", metavar="FILE")]
Url = Annotated[str | None, typer.Option("--url", help="opt.url", metavar="URL")]
Key = Annotated[str | None, typer.Option("--key", help="opt.key", metavar="KEY")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="opt.yes")]


@dataclass(frozen=True)
class UpOptions:
    """What `lumbre up` was asked; None: not said.

    Attributes:
        ask: a first question, sent when the gateway is ready.
        new_key: make a new key and show it once.
        use: an engine that already runs, by its kind (`ollama`), or `embedded`, without being asked.
        yes: ask nothing, and keep to the settings.
        lang: the language of texts.
    """

    config: Path | None = None
    host: str | None = None
    port: int | None = None
    state_dir: Path | None = None
    model: str | None = None
    backend: str | None = None
    ask: str | None = None
    new_key: bool = False
    json: bool = False
    verbose: bool = False
    use: str | None = None
    yes: bool = False
    lang: str = "en"

    def overrides(self) -> dict[str, object]:
        """The flags that are settings, as `runtime.settings.load` takes them."""
        return {
            "gateway.host": self.host,
            "gateway.port": self.port,
            "gateway.state_dir": None if self.state_dir is None else str(self.state_dir),
            "tier_a.model": self.model,
            "tier_a.backend": self.backend,
        }
