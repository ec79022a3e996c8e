"""What a soak has shown, what of it is a leak, and how it reads. Pure; `soak` fills it in."""

from collections import Counter
from dataclasses import dataclass, field

from bench.decision.accounts import Entry, NodeBook
from bench.decision.clients import Heard
from bench.decision.watch import Look
from bench.gateway.report import table

GROWS_UNTIL_S = 120.0
SHOWN_FAULTS = 20


@dataclass
class Soaked:
    """What a soak has shown.

    Attributes:
        seconds: how long requests were sent.
        limit_s: by when each had to be answered.
        base: at rest, before.
        log: where something is at fault, what the gateway complained of first.
        looks: while it ran, and how many requests were open.
        rest: at rest, after; as it was when the wait for it ended.
        held_back: requests that were not sent, since too many were open.
    """

    seconds: float
    limit_s: float
    base: Look
    looks: list[tuple[float, int, Look]] = field(default_factory=list)
    rest: Look | None = None
    heard: list[Heard] = field(default_factory=list)
    books: list[NodeBook] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    deaths: int = 0
    moves: int = 0
    held_back: int = 0
    faults: list[str] = field(default_factory=list)
    log: str = ""


def growth_mb(soaked: Soaked) -> float | None:
    """By how much memory grew once it was warm; None if it never was."""
    warm = [look.resident_mb for seconds, _, look in soaked.looks if seconds >= GROWS_UNTIL_S]
    return max(warm) - warm[0] if len(warm) > 1 else None


def leaks(base: Look, rest: Look) -> list[str]:
    """What is there at rest that was not there before, each in a few words."""
    found = []
    for name in ("sockets", "tasks", "children"):
        before, after = getattr(base, name), getattr(rest, name)
        if after > before:
            found.append(f"{name}: {before} before, {after} after")
    held = {name: getattr(rest, name) for name in ("in_flight", "waiting", "reserved")}
    return found + [f"{name}: {count} at rest" for name, count in held.items() if count]


def report(soaked: Soaked) -> str:
    """What it showed, in Markdown."""
    kinds = Counter(each.verdict.kind for each in soaked.heard)
    seconds = sorted(each.seconds for each in soaked.heard)
    grown_mb = growth_mb(soaked)
    rows = [
        ["requests", f"{len(soaked.heard):,}"],
        ["held back, as too many were open", f"{soaked.held_back:,}"],
        ["answered", f"{kinds['answer']:,}"],
        ["typed errors", f"{kinds['error']:,}"],
        ["clients that left", f"{kinds['left']:,}"],
        ["neither answer nor typed error in time", f"{kinds['wrong']:,}"],
        ["the longest", f"{seconds[-1]:.1f} s of {soaked.limit_s:g} s" if seconds else ""],
        ["deaths of engines", f"{soaked.deaths:,}"],
        ["switches and policies moved", f"{soaked.moves:,}"],
        [f"memory grew after the first {GROWS_UNTIL_S:g} s by", "" if grown_mb is None else f"{grown_mb:.1f} MB"],
    ]
    books = [_book_row(book) for book in soaked.books]
    head = ["node", "attempts on record", "certain", "unsent", "open", "the engine's count", "agree"]
    parts = [
        table([f"{soaked.seconds:g} s", ""], rows),
        table(head, books),
        _codes(soaked),
        table(
            ["the gateway", "tasks", "sockets", "threads", "children", "in flight", "waiting", "reserved", "MB"],
            _look_rows(soaked),
        ),
    ]
    if soaked.faults:
        shown = [f"- {fault}" for fault in soaked.faults[:SHOWN_FAULTS]]
        parts.append("\n".join([f"**{len(soaked.faults)} faults:**", "", *shown]))
    else:
        parts.append("Nothing was lost, nothing leaked, the books agree.")
    return "\n\n".join(parts)


def _codes(soaked: Soaked) -> str:
    codes = Counter(each.verdict.code for each in soaked.heard if each.verdict.kind == "error")
    told = ", ".join(f"`{code}` {count:,}" for code, count in codes.most_common())
    return f"Typed errors: {told or 'none'}."


def _book_row(book: NodeBook) -> list[str]:
    counts = (book.attempts, book.certain, book.unsent, book.open, book.seen)
    return [book.node, *(f"{count:,}" for count in counts), "yes" if book.agrees else "**no**"]


def _look_rows(soaked: Soaked) -> list[list[str]]:
    busiest = max(soaked.looks, key=lambda each: each[2].tasks, default=None)
    looks = [("at rest before", soaked.base)]
    looks += [] if busiest is None else [(f"the busiest look, {busiest[1]} requests open", busiest[2])]
    looks += [("at rest after", soaked.rest)] if soaked.rest else []
    return [_look_row(name, look) for name, look in looks]


def _look_row(name: str, look: Look) -> list[str]:
    counts = (look.tasks, look.sockets, look.threads, look.children, look.in_flight, look.waiting, look.reserved)
    return [name, *(f"{count:,}" for count in counts), f"{look.resident_mb:.1f}"]
