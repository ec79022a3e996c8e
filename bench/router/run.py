"""Times the mesh router beside a textbook's Dijkstra, in one run. Driven by `make bench-router` or by hand:

    .venv/bin/python -m bench.router.run

It prints Markdown. Only `--write` touches a file of the project: what stands between its two marks of
docs/benchmarks.md.
"""

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from bench.gateway.run import cpu_model, kernel
from bench.page import DOCS, put_into
from bench.router.report import report
from bench.router.timing import FULL, QUICK, Disagreement, measure

MARK = "bench:router"
PAGE = DOCS / "benchmarks.md"


def main(argv: Sequence[str]) -> int:
    """Measure, print, write; the exit status: 1 if something went wrong, 130 if it was stopped."""
    parser = argparse.ArgumentParser("bench.router.run", description="Time the mesh router.")
    parser.add_argument("--quick", action="store_true", help="few repetitions, and not the largest meshes")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    options = parser.parse_args(argv)
    try:
        figures = measure(QUICK if options.quick else FULL, say)
        text = report(figures, about(options))
        print(text)
        if options.write:
            PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), MARK, text), encoding="utf-8")
    except (Disagreement, OSError, ValueError) as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped; nothing was written.\n")
        return 130
    return 0


def say(text: str) -> None:
    """How far it is, for who waits."""
    sys.stderr.write(f"{text}\n")


def about(options: argparse.Namespace) -> dict[str, str]:
    """On what and by what it was measured."""
    today = datetime.now(UTC)
    words = [f"--{name}" for name in ("quick", "write") if getattr(options, name)]
    return {
        "date": f"{today.day} {today:%B %Y}",
        "machine": f"{cpu_model()}, {len(os.sched_getaffinity(0))} cores, Linux {kernel()}",
        "software": f"{platform.python_implementation()} {platform.python_version()}, one thread",
        "command": " ".join([".venv/bin/python -m bench.router.run", *words]),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
