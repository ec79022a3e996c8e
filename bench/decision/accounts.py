"""Decides whether three books agree: what the clients heard, what the gateway's ledger says, what the engines counted.
Pure; `soak` brings the books.

An engine counts a request when it has come whole, before anything else. So an attempt in the ledger is one of

    certain   the engine has it in its count
    unsent    it never left: no engine was there, a switch or the budget stopped it
    open      nobody can say: the engine was killed while it was on its way, or its client went while it was sent

and the engine's count lies between `certain` and `certain + open`: over the whole run, and of every single request
whose decision its client was told. An engine knows a request by the tag in its text; its client knows tag and decision.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bench.decision.clients import Heard

Entry = Mapping[str, Any]

NEVER_SENT = frozenset({"deadline_connect", "switch_closed", "over_budget", "no_tier", "saturated", "draining"})
CLOCKS_S = 0.05
"""How far the moments of two processes may lie apart."""
SENDING_S = 0.02
"""An attempt that its client ended sooner may not have left yet."""


@dataclass(frozen=True)
class Death:
    """An engine was not there, in seconds since 1970: from before it was killed until after it listened again."""

    killed: float
    back: float


@dataclass(frozen=True)
class NodeBook:
    """One node's attempts in the ledger beside its engine's count."""

    node: str
    attempts: int
    certain: int
    unsent: int
    open: int
    seen: int

    @property
    def agrees(self) -> bool:
        return self.certain <= self.seen <= self.certain + self.open


def node_book(node: str, entries: Iterable[Entry], seen: int, deaths: Sequence[Death]) -> NodeBook:
    """One node's book.

    Args:
        entries: the ledger's, of every kind and node.
        seen: its engine's count, over all its lives.
    """
    found = Counter(_fate(entry, deaths) for entry in entries if entry["kind"] == "attempt" and entry["node"] == node)
    return NodeBook(node, found.total(), found["certain"], found["unsent"], found["open"], seen)


def _fate(entry: Entry, deaths: Sequence[Death]) -> str:
    if entry["outcome"] in NEVER_SENT:
        return "unsent"
    if entry["outcome"] == "ok":
        return "certain"
    end = datetime.fromisoformat(entry["at"]).timestamp()
    begin = end - entry["seconds"]
    for death in deaths:
        if begin < death.back + CLOCKS_S and end > death.killed - CLOCKS_S:
            inside = begin > death.killed + CLOCKS_S and end < death.back - CLOCKS_S
            return "unsent" if inside else "open"
    is_short = entry["outcome"] == "client_gone" and entry["seconds"] < SENDING_S
    return "open" if is_short else "certain"


def request_faults(
    heard: Iterable[Heard],
    entries: Iterable[Entry],
    seen: Mapping[tuple[str, str], int],
    deaths: Mapping[str, Sequence[Death]],
) -> list[str]:
    """The requests of which an engine has seen more, or less, than the ledger says.

    Args:
        seen: how often a request reached an engine, by its tag and the node.
        deaths: by node.
    """
    attempts: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry["kind"] == "attempt":
            attempts.setdefault((entry["decision"], entry["node"]), []).append(entry)
    found = []
    for each in heard:
        for node in deaths if each.decision else ():
            made = attempts.get((each.decision, node), [])
            fates = Counter(_fate(entry, deaths[node]) for entry in made)
            count = seen.get((each.ask.tag, node), 0)
            if not fates["certain"] <= count <= fates["certain"] + fates["open"]:
                told = ", ".join(f"{entry['outcome']} at {entry['at']} after {entry['seconds']} s" for entry in made)
                found.append(f"decision {each.decision}: {node} has seen it {count} times, on record is: {told or '-'}")
    return found


def faults(heard: Sequence[Heard], entries: Sequence[Entry], books: Iterable[NodeBook]) -> list[str]:
    """All that is not as it has to be, each in a sentence."""
    found = [
        f"{each.ask.door} {'stream' if each.ask.stream else 'JSON'} {dict(each.ask.hint)}, decision "
        f"{each.decision or 'unknown'}, after {each.seconds:.1f} s: {each.verdict.code}"
        for each in heard
        if each.verdict.kind == "wrong"
    ]
    requests = Counter(entry["decision"] for entry in entries if entry["kind"] == "request")
    attempts = Counter(entry["decision"] for entry in entries if entry["kind"] == "attempt")
    told = [each.decision for each in heard if each.decision]
    found += [f"decision {each}: {requests[each]} request records, not one" for each in told if requests[each] != 1]
    found += [
        f"decision {entry['decision']}: {attempts[entry['decision']]} attempts on record, not {entry['attempts']}"
        for entry in entries
        if entry["kind"] == "request" and attempts[entry["decision"]] != entry["attempts"]
    ]
    found += [f"{book.node}: the books do not agree: {book}" for book in books if not book.agrees]
    return found
