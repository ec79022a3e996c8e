"""What a decision comes to, short enough to be written down in a row and compared. Pure."""

from typing import NamedTuple

from lumbre.gateway.decision import decide
from lumbre.gateway.facts import Facts, Question

Place = tuple[str, str | None]
"""A tier and, of tier B, the label."""


class Outcome(NamedTuple):
    """Which of the four outcomes, the places to try in order, and how a request is refused."""

    kind: str
    places: tuple[Place, ...] = ()
    status: int | None = None
    code: str | None = None
    switch: str | None = None

    def __str__(self) -> str:
        """As a row has it: `A > B/express`, `start B/batch`, `wait`, `503 switch_closed B`."""
        if self.kind == "reject":
            return f"{self.status} {self.code} {self.switch or ''}".rstrip()
        places = " > ".join(f"{tier}/{label}" if label else tier for tier, label in self.places)
        return {"dispatch": places, "start": f"start {places}"}.get(self.kind, self.kind)


def decided(question: Question, facts: Facts) -> Outcome:
    """What the gateway decides."""
    decision = decide(question, facts)
    places = tuple((attempt.tier, attempt.label) for attempt in decision.attempts)
    refusal = decision.refusal
    if refusal is None:
        return Outcome(decision.outcome, places)
    return Outcome(decision.outcome, places, refusal.status, refusal.code, refusal.switch)
