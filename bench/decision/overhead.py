"""Measures what the decision adds to a relay: the processor time a request of gateways that differ in nothing else, on
the same mock, under the same load, in turns. Driver; `run` drives it.

    relay    this gateway as it was before it had a decision, switches, breakers, budgets and a ledger; tier A alone
    A        as it is now, with tier A alone
    A, B, C  as it is now, with all three tiers and the policy balanced; the mock stands behind each of them

Requests go the usual way: no hints, so the policy sends them to A.
"""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.decision import tiers
from bench.gateway.figures import JSON_1, JSON_16, JSON_64, STREAM_16, Case, Sample
from bench.gateway.load import Wrk
from bench.gateway.processes import BenchError, Child, Cores
from bench.gateway.targets import Target, build_mock, tools

BEFORE = "d11753e"
"""The last commit without a decision."""
CASES = (JSON_1, JSON_16, JSON_64, STREAM_16)
RELAY, ALONE, THREE = "relay", "A", "A, B, C"
GATEWAYS = (RELAY, ALONE, THREE)
SLOTS = 256
ROOT = Path(__file__).parents[2]
WARM_S = 1.0
OLD = "import sys; sys.path.insert(0, {place!r}); from lumbre.cli.main import main; sys.exit(main())"


@dataclass
class Overhead:
    """Each gateway's samples for each case, one a round."""

    samples: dict[tuple[Case, str], list[Sample]] = field(default_factory=dict)

    def cpu_ms(self, case: Case, name: str) -> float:
        """Processor time a request, of the round with the least: whatever else the machine does only ever adds."""
        return min(sample.cpu_ms or 0.0 for sample in self.samples[case, name])

    def added_ms(self, case: Case, name: str) -> float:
        return self.cpu_ms(case, name) - self.cpu_ms(case, RELAY)

    def spread(self, case: Case, name: str) -> float:
        """How far the dearest round lies above the cheapest, as a share of that."""
        return max(sample.cpu_ms or 0.0 for sample in self.samples[case, name]) / self.cpu_ms(case, name) - 1


def overhead(folder: Path, seconds: float, rounds: int, say: Callable[[str], None]) -> Overhead:
    """Put each gateway under load, in turns.

    Raises:
        BenchError: a tool or the commit is missing, or the measurement went wrong.
    """
    paths, cores = tools(), Cores(pinned=False)
    wrk = Wrk(paths["wrk"], folder, cores)
    wrk.prepare()
    result = Overhead()
    with _targets(folder, paths["cc"]) as found:
        for target in found:
            wrk.run(JSON_64, target, min(WARM_S, seconds))
        for number in range(1, rounds + 1):
            for case in CASES:
                for target in found:
                    sample = wrk.run(case, target, seconds)
                    result.samples.setdefault((case, target.name), []).append(sample)
                    say(f"round {number} of {rounds}: {case.name}, {target.name}: {sample.cpu_ms:.4f} ms a request")
    return result


@contextlib.contextmanager
def _targets(folder: Path, compiler: str) -> Iterator[list[Target]]:
    """The three gateways before one mock, all of them up."""
    before = code_of(BEFORE, folder)
    binary = build_mock(folder, compiler)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(Child([str(binary), "0"], folder / "mock.log")).told("url")
        alone = tiers.config({"mock": url}, slots=SLOTS)
        nodes = {"b-express": ("express", url), "b-batch": ("batch", url)}
        three = tiers.config({"mock": url}, nodes, url, slots=SLOTS, key_file=tiers.key_file(folder))
        # The interpreter looks there before it looks where the project is installed.
        old = ("-c", OLD.format(place=str(before)))
        children = {
            RELAY: stack.enter_context(tiers.gateway(folder, alone, "relay", old)),
            ALONE: stack.enter_context(tiers.gateway(folder, alone, "alone")),
            THREE: stack.enter_context(tiers.gateway(folder, three, "three")),
        }
        found = []
        for name, child in children.items():
            address = child.told("url")
            child.told("models")
            found.append(Target(name, address, "none", child))
        yield found


def code_of(commit: str, folder: Path) -> Path:
    """The package as it was at a commit, laid out in the folder.

    Raises:
        BenchError: this is no clone that has it.
    """
    place = folder / "before"
    place.mkdir()
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=False, capture_output=True)  # noqa: S607
    if archive.returncode != 0:
        raise BenchError(f"the code of {commit} is needed, from a clone: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=True)  # noqa: S607
    return place / "src"
