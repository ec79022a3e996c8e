"""Measures the gateway under load, beside nginx and beside nothing, in one run. Driven by `make bench` or by hand:

    .venv/bin/python -m bench.gateway.run

It compiles the mock, starts it three times over (bare, behind nginx, behind Lumbre as it comes), puts wrk on each in
turns, and prints Markdown. Only `--write` touches a file of the project: what stands between the two marks of
docs/benchmarks.md.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import orjson
from bench.gateway.figures import raw
from bench.gateway.load import Wrk
from bench.gateway.processes import BenchError, Cores, tidy_ending
from bench.gateway.report import report
from bench.gateway.rounds import Measurement, Plan, say
from bench.gateway.targets import targets, tools
from bench.page import DOCS, put_into

MARK = "bench:gateway"
PAGE = DOCS / "benchmarks.md"


def main(argv: Sequence[str]) -> int:
    """Measure, print, write; the exit status: 1 if something went wrong, 130 if it was stopped."""
    options = parse(argv)
    try:
        with tidy_ending():
            measure(options)
    except BenchError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped; nothing was written.\n")
        return 130
    return 0


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("bench.gateway.run", description="Measure the gateway under load.")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run of wrk (4)")
    parser.add_argument("--rounds", type=int, default=3, help="of everything; the best one counts (3)")
    parser.add_argument("--pin", action="store_true", help="gateways on the first core, the load on the others")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures there")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    options = parser.parse_args(argv)
    if options.seconds <= 0 or options.rounds < 1:
        parser.error("--seconds must be above 0 and --rounds at least 1")
    return options


def measure(options: argparse.Namespace) -> None:
    """Do what the options say.

    Raises:
        BenchError: a tool is missing, or the measurement went wrong.
    """
    paths = tools()
    if options.write:
        fill_page("")
    cores = Cores(pinned=options.pin)
    with tempfile.TemporaryDirectory(prefix="lumbre-bench-") as folder:
        wrk = Wrk(paths["wrk"], Path(folder), cores)
        wrk.prepare()
        say("starting the mock, nginx and Lumbre")
        with targets(Path(folder), paths, cores) as three:
            figures = Measurement(Plan(options.seconds, options.rounds), three, wrk).run()
    facts = about(options, paths)
    text = report(figures, facts)
    print(text)
    if options.json:
        options.json.write_bytes(orjson.dumps(raw(figures, facts), option=orjson.OPT_INDENT_2))
    if options.write:
        PAGE.write_text(fill_page(text), encoding="utf-8")
        say(f"written into {PAGE}")


def fill_page(text: str) -> str:
    """The page with these tables in it.

    Raises:
        BenchError: the page has no place for them.
    """
    try:
        return put_into(PAGE.read_text(encoding="utf-8"), MARK, text)
    except (OSError, ValueError) as error:
        raise BenchError(f"{PAGE} cannot be written: {error}") from error


def about(options: argparse.Namespace, paths: dict[str, str]) -> dict[str, str]:
    """On what and by what it was measured."""
    today = datetime.now(UTC)
    nginx = version([paths["nginx"], "-v"]).rpartition("/")[2]
    wrk = version([paths["wrk"], "-v"]).split()[1].rpartition("/")[2]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    words = [f"--seconds {options.seconds:g}", f"--rounds {options.rounds}"]
    words += [f"--{name}" for name in ("pin", "write") if getattr(options, name)]
    return {
        "date": f"{today.day} {today:%B %Y}",
        "machine": f"{cpu_model()}, {len(os.sched_getaffinity(0))} cores, Linux {kernel()}",
        "software": f"{python}, nginx {nginx} (one process), wrk {wrk} (one thread)",
        "command": " ".join([".venv/bin/python -m bench.gateway.run", *words]),
    }


def version(argv: list[str]) -> str:
    """The first line of what a tool says of itself, on whichever output."""
    done = subprocess.run(argv, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.partition("\n")[0]


def kernel() -> str:
    """Its release, as far as figures hang on it: the rest only names a build."""
    return ".".join(platform.release().split(".")[:2])


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
