"""The dimensions of the pairwise runs, what of them may stand together, and what each value is to a gateway and to the
second reading of the texts. Pure.
"""

from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

from flow.flow_house import KEY, OUTSIDE, Json, Layout
from flow.pairs import Covering, Row
from gateway.second_reading import read
from lumbre.core.errors import CallerError
from lumbre.gateway.facts import Facts, Node, NodeState, Question
from lumbre.gateway.hints import Hints

HOUSES = {
    "b": ("pair", "both", "express", "none"),
    "c": ("key", "direct", "no key", "none"),
    "money": ("enough", "none for B", "none for C"),
    "weak": ("none", "A takes no tools", "A is short", "B takes no tools", "C takes no tools"),
    "strict on A": ("no", "yes"),
    "on closed": ("auto", "fall", "reject"),
}
"""What a gateway is started with."""

ASKS = {
    "asked": (
        "auto",
        "tier A",
        "tier B",
        "tier C",
        "label batch",
        "label express",
        "tier-a",
        "tier-b/express",
        "tier-c",
        "small",
        "big",
        "shared",
        "vast",
    ),
    "switch": ("-", "A", "B", "C", "batch", "express", "global", "gpu-1"),
    "policy": ("balanced", "drain-batch", "drain-express", "local-only"),
    "complexity": ("-", "low", "medium", "high"),
    "affinity": ("-", "A", "B", "C"),
    "closed": ("-", "auto", "fall", "reject"),
    "needs": ("-", "tools", "a long context"),
    "class": ("-", "background"),
    "strict": ("no", "yes"),
    "external": ("-", "never"),
    "stream": ("no", "yes"),
    "A": ("up", "down"),
    "B": ("up", "down"),
}
"""What changes from request to request."""

TIER_OF = {"tier-a": "A", "small": "A", "big": "B", "tier-b/express": "B", "tier-c": "C", "vast": "C"}
LABELS: dict[str, dict[str, tuple[str, ...]]] = {
    "pair": {"gpu-1": ("express",), "gpu-2": ("batch",)},
    "both": {"gpu-1": ("batch", "express")},
    "express": {"gpu-1": ("express",)},
    "none": {},
}
MODELS = {"A": ("small", "shared"), "B": ("big", "shared"), "C": ("vast",)}
CONTEXT_TOKENS, LONG_TOKENS = 5000, 6000


def allowed(row: Mapping[str, str]) -> bool:
    """Whether values may stand together: what has no meaning, or is refused for its spelling alone, hides the rest."""
    asked, affinity, b, c = (
        row.get("asked", "auto"),
        row.get("affinity", "-"),
        row.get("b", "pair"),
        row.get("c", "key"),
    )
    if affinity != "-" and asked_tier(asked) not in (None, affinity):
        return False  # 422 whatever else it says
    if asked == "shared" and affinity == "C":
        return False
    if b == "none" and (row.get("switch") == "gpu-1" or row.get("B") == "down" or asked == "big"):
        return False
    if b == "none" and (row.get("money") == "none for B" or row.get("weak") == "B takes no tools"):
        return False
    return not (
        c == "none" and (row.get("money") == "none for C" or row.get("weak") == "C takes no tools" or asked == "vast")
    )


def asked_tier(asked: str) -> str | None:
    """The tier that is asked for outright; the model `shared` may be had from two."""
    kind, _, name = asked.partition(" ")
    return {"tier": name, "label": "B"}.get(kind, TIER_OF.get(asked)) or None


@cache
def houses() -> list[Row]:
    """Every two settings that may stand together."""
    return [house_of(row) for row in Covering(HOUSES, allowed).rows()]


@cache
def rows() -> list[Row]:
    """All runs, those of one house together.

    Every two values that may stand together do so in some row; and where a row with both of them is answered at all,
    in one that is, for a refusal tells little of what else it was asked. What decides only three together follows.
    """
    every = Covering(ASKS, allowed, houses()).rows() + Covering(ASKS, allowed, houses(), is_served).rows() + _shared()

    def key(row: Row) -> tuple[int, str, str]:
        return houses().index(house_of(row)), row["A"], row["B"]

    return sorted(every, key=key)


def _shared() -> list[Row]:
    """Three things that decide together: a node that has two labels, or is lent to another, and a switch over it."""
    usual = {name: values[0] for name, values in ASKS.items()}
    found = []
    for b, label, switch in product(("both", "express"), ("batch", "express"), ("batch", "express", "gpu-1", "B")):
        house = next(each for each in houses() if each["b"] == b and each["money"] != "none for B")
        found.append({**usual, **house, "asked": f"label {label}", "switch": switch})
    return found


def is_served(row: Row) -> bool:
    """Whether the texts have somebody answer it."""
    return read(question(row), facts(row)).kind == "dispatch"


def house_of(row: Row) -> Row:
    """The part of a row that a gateway is started with."""
    return {name: row[name] for name in HOUSES}


def layout(house: Row) -> Layout:
    """The settings of one house."""
    nodes = LABELS[house["b"]]
    own: dict[str, Json] = {
        "one": {"model": "small"},
        **{node: {"model": "big", "usd_per_hour": 0.5} for node in nodes},
    }
    takes_none = {"A takes no tools": ("one",), "B takes no tools": tuple(nodes), "C takes no tools": (OUTSIDE,)}
    for name in takes_none.get(house["weak"], ()):
        own[name] = {**own.get(name, {}), "tools": False}
    sections: dict[str, Json] = {
        "tier_a": {"strict_json": house["strict on A"] == "yes"},
        "flow": {"closed": house["on closed"], "daily_budget_usd": 100},
        "breaker": {"probe_s": 0.05, "failures": 1},
    }
    if house["money"] != "enough":
        sections["tier_b" if house["money"] == "none for B" else "tier_c"] = {"daily_budget_usd": 0}
    return Layout(
        b=nodes,
        c=None if house["c"] == "none" else "openai",
        key=KEY if house["c"] in ("key", "direct") else None,
        direct=("vast",) if house["c"] == "direct" else (),
        own=own,
        sections=sections,
    )


def hints(row: Row) -> dict[str, str]:
    """What the request says in headers, by the hints' names."""
    kind, _, name = row["asked"].partition(" ")
    said = {each: row[each] for each in ("complexity", "affinity", "class", "closed", "external") if row[each] != "-"}
    return {**said, **({kind: name} if name else {})}


def body(row: Row) -> Json:
    """What the request asks for beyond that."""
    long = row["needs"] == "a long context"
    told: Json = {
        "model": "auto" if " " in row["asked"] else row["asked"],
        "messages": [{"role": "user", "content": "word " * 1200 if long else "hello"}],
        "stream": row["stream"] == "yes",
    }
    if row["needs"] == "tools":
        told["tools"] = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    if row["strict"] == "yes":
        schema: Json = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        schema["additionalProperties"] = False
        told["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "n", "strict": True, "schema": schema},
        }
    return told


def facts(row: Row) -> Facts:
    """The house of a row, as the second reading asks for it."""

    def node(name: str, tier: str, labels: tuple[str, ...] = ()) -> Node:
        up = tier == "C" or row[tier] == "up"
        return Node(name, NodeState.READY if up else NodeState.DOWN, None, labels, MODELS[tier])

    money = {"none for B": frozenset("B"), "none for C": frozenset("C")}.get(row["money"], frozenset())
    return Facts(
        a=(node("one", "A"),),
        b=tuple(node(name, "B", labels) for name, labels in LABELS[row["b"]].items()),
        c=() if row["c"] == "none" else (node(OUTSIDE, "C"),),
        a_does_strict_json=row["strict on A"] == "yes",
        policy=row["policy"],  # type: ignore[arg-type]
        closed=frozenset() if row["switch"] == "-" else frozenset({row["switch"]}),
        on_closed=row["on closed"],
        c_has_key=row["c"] in ("key", "direct"),
        c_direct=frozenset({"vast"}) if row["c"] == "direct" else frozenset(),
        over_budget=money,
    )


def question(row: Row) -> Question:
    """The request of a row, likewise."""
    said: dict[str, Any] = {name.replace("class", "klass"): value for name, value in hints(row).items()}
    return Question(body(row)["model"], Hints(**said), row["strict"] == "yes", lacks=_lacks(row))


def _lacks(row: Row) -> dict[str, CallerError]:
    """Who cannot do it. What is down is not asked what it can."""
    weak, nodes = row["weak"], tuple(LABELS[row["b"]])
    if row["needs"] == "tools" and weak.endswith("takes no tools"):
        tier, error = weak[0], CallerError("no tools", code="unsupported_field")
    elif row["needs"] == "a long context" and weak == "A is short":
        tier, error = "A", CallerError("too long", code="context_length_exceeded")
    else:
        return {}
    if tier != "C" and row[tier] == "down":
        return {}
    return dict.fromkeys({"A": ("one",), "B": nodes, "C": (OUTSIDE,)}[tier], error)
