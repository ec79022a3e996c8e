"""The gateway on its embedded engine, as a real process. Used by the tests."""

import os
import sys
from pathlib import Path

from json_lines import JsonLines

SETTINGS = """
[tier_a]
model = "{model}"
slots = 2
context_tokens = 1024
strict_json = {strict_json}
{tier_a}

[deadlines]
drain_s = 60
"""


class EmbeddedGateway(JsonLines):
    """`lumbre up` with nothing but its own engine."""

    def __init__(
        self,
        folder: Path,
        model: Path | str,
        *arguments: str,
        strict_json: bool = True,
        tier_a: str = "",
        toml: str = "",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "lumbre.toml"
        self.state_dir = folder / "state"
        settings = SETTINGS.format(model=model, strict_json=str(strict_json).lower(), tier_a=tier_a)
        config.write_text(settings + toml)
        argv = [sys.executable, "-m", "lumbre.cli.main", "up", "--config", str(config), "--json", "--port", "0"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LUMBRE_")}
        super().__init__(
            [*argv, "--state-dir", str(self.state_dir), *arguments],
            folder / "gateway.log",
            {**kept, "LANG": "C.UTF-8"},
        )
        self.url = self.wait_for("listening")["url"]
        self.wait_for("ready", deadline_s=60)
