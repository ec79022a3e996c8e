"""What is listed as a model, and what can be asked for without being listed."""

from types import SimpleNamespace
from typing import Any, cast

from lumbre.api.models import can_be_asked_for, entry, names
from lumbre.gateway.aliases import Aliases
from lumbre.gateway.decision import Facts
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.lanes import Lane


def tier(lane: Lane) -> Any:
    return SimpleNamespace(lanes={lane.id: lane}, models=lambda: lane.models, facts=lambda: Facts(False, lane.models))


def gateway(aliases: dict[str, Any], *, embeds: bool = True) -> Gateway:
    """The parts of a gateway that a listing looks at."""
    chat = Lane("ollama", 1, "", models=("llama", "qwen"))
    vectors = Lane("vectors", 1, "", models=("nomic",))
    made = SimpleNamespace(
        tier=tier(chat), embeddings=tier(vectors) if embeds else None, aliases=Aliases(aliases), began_at_s=5
    )
    return cast(Gateway, made)


def test_models_of_embeddings_and_aliases_that_lead_somewhere_are_listed() -> None:
    aliases = {"gpt-*": "auto", "gpt-4o": "qwen", "lost": "gone", "cheap": "tier-a", "both": {"A": "llama"}}
    assert names(gateway(aliases)) == ("auto", "llama", "qwen", "nomic", "gpt-4o", "cheap", "both")
    assert names(gateway({}, embeds=False)) == ("auto", "llama", "qwen")


def test_a_name_that_a_pattern_catches_can_be_asked_for() -> None:
    there = gateway({"gpt-*": "auto"})
    assert [can_be_asked_for(name, there) for name in ("gpt-9", "auto", "tier-a", "nomic", "claude")] == [
        True, True, True, True, False,
    ]  # fmt: skip


def test_a_model_belongs_to_the_upstream_that_serves_it() -> None:
    there = gateway({"x": "auto"})
    assert [entry(name, there)["owned_by"] for name in ("qwen", "nomic", "x")] == ["ollama", "vectors", "lumbre"]
