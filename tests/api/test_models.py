"""What is listed as a model, and what can be asked for without being listed."""

from types import SimpleNamespace
from typing import Any, cast

from lumbre.api.models import can_be_asked_for, entry, names
from lumbre.gateway.aliases import Aliases
from lumbre.gateway.breaker import BreakerLimits
from lumbre.gateway.deadlines import Deadlines
from lumbre.gateway.policy import Policy
from lumbre.runtime.board import Board
from lumbre.runtime.dispatch import Dispatcher, Embeddings
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.house import House, Rules
from lumbre.runtime.lanes import Lane
from lumbre.runtime.purse import Purse
from lumbre.runtime.tier import Tier

NOTHING: Any = None
LIMITS = Deadlines(connect_s=1, header_s=1, first_token_s=1, idle_s=1, total_s=1, keepalive_s=1)


BREAKER = BreakerLimits(failures=3, open_s=1, most_open_s=1, jitter=0, calm_s=1)
RULES = Rules(a_does_strict_json=False, on_closed="auto", c_direct=frozenset(), c_has_key=False)


def house(lane: Lane) -> House:
    """A house with tier A alone, whose switches are all open."""
    tier = Tier("A", [lane], max_waiting=1, wait_s=1, suspect=lambda _lane: None, breaker=BREAKER)
    board = cast(Board, SimpleNamespace(policy=Policy("balanced"), closed=frozenset()))
    purse = cast(Purse, SimpleNamespace(over=frozenset()))
    return House(tier, None, None, board=board, purse=purse, rules=RULES)


def gateway(aliases: dict[str, Any], *, embeds: bool = True, asked: bool = True) -> Gateway:
    """The parts of a gateway that a listing looks at."""
    chat = house(Lane("ollama", 1, "", models=("llama", "qwen"), asked=asked))
    vectors = house(Lane("vectors", 1, "", models=("nomic",), asked=asked)) if embeds else None
    maker = None if vectors is None else Embeddings(vectors, None, lambda: None)
    dispatcher = Dispatcher(
        chat,
        maker,
        Aliases(aliases),
        NOTHING,
        NOTHING,
        NOTHING,
        LIMITS,
        finder=None,
        reply_limit_bytes=1,
        clock=lambda: 0.0,
    )
    made = SimpleNamespace(
        house=chat,
        tier=chat.a,
        embeddings=None if vectors is None else vectors.a,
        aliases=Aliases(aliases),
        dispatcher=dispatcher,
        began_at_s=5,
    )
    return cast(Gateway, made)


ALIASES = {
    "gpt-*": "auto",
    "gpt-4o": "qwen",
    "cheap": "tier-a",
    "both": {"A": "llama"},
    "own": {"A": "auto", "C": "gpt-4o"},
    "ada": "nomic",
}
LEADING_NOWHERE = {
    "lost": "gone",
    "lost-*": "gone",
    "twice": "gpt-4o",
    "twice-*": "gpt-9",
    "cloud": {"C": "gpt-4o"},
    "lost-too": {"A": "gone"},
}


def test_models_of_embeddings_and_aliases_that_lead_somewhere_are_listed() -> None:
    listed = ("auto", "llama", "qwen", "nomic", "gpt-4o", "cheap", "both", "own", "ada")
    assert names(gateway({**ALIASES, **LEADING_NOWHERE})) == listed
    assert names(gateway({}, embeds=False)) == ("auto", "llama", "qwen")


def test_everything_that_is_listed_can_be_asked_for() -> None:
    there = gateway({**ALIASES, **LEADING_NOWHERE})
    assert all(can_be_asked_for(name, there) for name in names(there))


def test_a_name_that_a_pattern_catches_can_be_asked_for() -> None:
    there = gateway({"gpt-*": "auto"})
    assert [can_be_asked_for(name, there) for name in ("gpt-9", "auto", "tier-a", "nomic", "claude")] == [
        True, True, True, True, False,
    ]  # fmt: skip


def test_a_name_that_leads_nowhere_cannot_be_asked_for() -> None:
    there = gateway({**ALIASES, **LEADING_NOWHERE})
    asked = (*LEADING_NOWHERE, "lost-1", "twice-2", "tier-c", "gone")
    assert not [name for name in asked if can_be_asked_for(name, there)]


def test_an_alias_of_a_model_whose_upstream_has_not_said_what_it_serves_cannot_be_asked_for_yet() -> None:
    there = gateway({"soon": "mistral", "now": "llama"}, asked=False)
    assert [can_be_asked_for(name, there) for name in ("soon", "now")] == [False, True]


def test_a_model_belongs_to_the_upstream_that_serves_it() -> None:
    there = gateway({"x": "auto"})
    assert [entry(name, there)["owned_by"] for name in ("qwen", "nomic", "x")] == ["ollama", "vectors", "lumbre"]
