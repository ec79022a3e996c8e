"""Measures the decision, what it adds to a relay, a switch, the ledger, and soaks the gateway. Driven by
`make bench-decision` or by hand:

    .venv/bin/python -m bench.decision.run

It prints Markdown. Only `--write` touches a file of the project: what stands between its two marks of
docs/benchmarks.md.
"""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.decision.deciding import WrongDecision, decided, recorded
from bench.decision.moves import moves
from bench.decision.overhead import overhead
from bench.decision.report import Figures, report
from bench.decision.soak import say, soak
from bench.gateway.processes import BenchError, tidy_ending
from bench.gateway.run import cpu_model, kernel
from bench.page import DOCS, put_into

MARK = "bench:decision"
PAGE = DOCS / "benchmarks.md"
DECISIONS, RECORDS, ROUNDS = 2000, 2000, 5
QUICK_SHARE = 0.05


def main(argv: Sequence[str]) -> int:
    """Measure, print, write; the exit status: 1 if something went wrong, 130 if it was stopped."""
    options = parse(argv)
    try:
        with tidy_ending():
            if options.write:
                put_into(PAGE.read_text(encoding="utf-8"), MARK, "")
            text = report(measure(options), about(options))
            print(text)
            if options.write:
                PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), MARK, text), encoding="utf-8")
    except (BenchError, WrongDecision, OSError, ValueError) as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped; nothing was written.\n")
        return 130
    return 0


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("bench.decision.run", description="Measure the decision and soak the gateway.")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the soak; 0 leaves it out (10)")
    parser.add_argument("--rate", type=float, default=200.0, help="of the soak, requests a second (200)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run of wrk; 0 leaves the relay out (4)")
    parser.add_argument("--moves", type=int, default=200, help="of a switch (200)")
    parser.add_argument("--quick", action="store_true", help="few repetitions of what is timed in this process")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    options = parser.parse_args(argv)
    if options.moves < 1 or options.minutes < 0 or options.seconds < 0 or options.rate <= 0:
        parser.error("--moves and --rate must be above 0, --minutes and --seconds not below it")
    return options


def measure(options: argparse.Namespace) -> Figures:
    """Everything, one after the other.

    Raises:
        BenchError: a tool is missing, or a measurement went wrong.
        WrongDecision: the mix of questions is not decided as it is meant to be.
    """
    share = QUICK_SHARE if options.quick else 1.0
    say("timing the decision")
    times = decided(round(DECISIONS * share), ROUNDS)
    say("timing the ledger")
    ledger = recorded(round(RECORDS * share), ROUNDS)
    with tempfile.TemporaryDirectory(prefix="lumbre-bench-") as folder:
        figures = Figures(times, ledger, moves(Path(folder), options.moves, say))
        if options.seconds:
            figures.overhead = overhead(Path(folder), options.seconds, ROUNDS, say)
    if options.minutes:
        figures.soaked = soak(options.minutes, options.rate)
    return figures


def about(options: argparse.Namespace) -> dict[str, str]:
    """On what and by what it was measured."""
    today = datetime.now(UTC)
    words = [f"--{name} {getattr(options, name):g}" for name in ("minutes", "rate", "seconds", "moves")]
    words += [f"--{name}" for name in ("quick", "write") if getattr(options, name)]
    return {
        "date": f"{today.day} {today:%B %Y}",
        "machine": f"{cpu_model()}, {len(os.sched_getaffinity(0))} cores, Linux {kernel()}",
        "software": f"{platform.python_implementation()} {platform.python_version()}",
        "command": " ".join([".venv/bin/python -m bench.decision.run", *words]),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
