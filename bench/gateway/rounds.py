"""Decides in which order things are measured, so that what else the machine does hits every target alike. Driver."""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.gateway.figures import CASES, JSON_64, MEMORY_REQUESTS, Case, Figures, Memory, Sample
from bench.gateway.load import Client, Wrk
from bench.gateway.processes import Child, resident_mb
from bench.gateway.targets import Target

TOP_UPS_MOST = 15
"""Runs at most to come to MEMORY_REQUESTS; a gateway that is too slow for it is shown with what it has answered."""
FIRST_BYTES_A_SECOND = 100


@dataclass(frozen=True)
class Plan:
    """How long.

    Attributes:
        seconds: of each run of wrk, more than 0.
        rounds: of everything, at least 1.
    """

    seconds: float
    rounds: int

    @property
    def first_bytes(self) -> int:
        """Streams of each target in a round, for the time to their first event."""
        return max(10, round(self.seconds * FIRST_BYTES_A_SECOND))


class Measurement:
    """One run of everything."""

    def __init__(self, plan: Plan, targets: Sequence[Target], wrk: Wrk) -> None:
        self._plan = plan
        self._targets = targets
        self._wrk = wrk
        self._asked: Counter[str] = Counter()
        self._figures = Figures()

    def run(self) -> Figures:
        """Measure.

        Raises:
            BenchError: something went wrong, and no figure can be trusted.
        """
        at_start_mb = {target.name: resident_mb(gateway.pid) for target, gateway in self._gateways()}
        for target in self._targets:
            self._sample("warm-up", JSON_64, target, min(1.0, self._plan.seconds))
        for number in range(1, self._plan.rounds + 1):
            name = f"round {number} of {self._plan.rounds}"
            for case in CASES:
                for target in self._targets:
                    sample = self._sample(name, case, target, self._plan.seconds)
                    self._figures.samples.setdefault((case, target.name), []).append(sample)
            self._first_bytes(name)
        for target, gateway in self._gateways():
            self._figures.memory[target.name] = self._memory(target, gateway, at_start_mb[target.name])
        return self._figures

    def _gateways(self) -> list[tuple[Target, Child]]:
        return [(target, target.gateway) for target in self._targets if target.gateway is not None]

    def _sample(self, when: str, case: Case, target: Target, seconds: float) -> Sample:
        sample = self._wrk.run(case, target, seconds)
        self._asked[target.name] += sample.requests
        say(f"{when}: {case.name}, {target.name}: {sample.per_second:,.0f}/s, p50 {sample.p50_ms:.2f} ms")
        return sample

    def _first_bytes(self, when: str) -> None:
        """Ask every target in turn, again and again; who comes first goes round."""
        with ExitStack() as stack:
            clients = [(target.name, stack.enter_context(Client(target, stream=True))) for target in self._targets]
            for _, client in clients:
                client.ask()
            for number in range(self._plan.first_bytes):
                shift = number % len(clients)
                for name, client in clients[shift:] + clients[:shift]:
                    self._figures.first_bytes.setdefault(name, []).append(client.ask()[1])
                    self._asked[name] += 1
        say(f"{when}: first bytes of {self._plan.first_bytes} streams, each target")

    def _memory(self, target: Target, gateway: Child, at_start_mb: float) -> Memory:
        """Bring a gateway to so many requests and look, then load it once more and look again."""
        for _ in range(TOP_UPS_MOST):
            if self._asked[target.name] >= MEMORY_REQUESTS:
                break
            self._sample("memory", JSON_64, target, self._plan.seconds)
        requests, after_mb = self._asked[target.name], resident_mb(gateway.pid)
        further = self._sample("memory", JSON_64, target, 2 * self._plan.seconds).requests
        return Memory(at_start_mb, requests, after_mb, further, resident_mb(gateway.pid))


def say(text: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
