"""`tools/shape.py`, run as `make check` runs it, on small trees that break one rule each."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOC = '"""A module."""\n'
PARAMETERS = "a, b, c, d, e, f, g, h"


def body(lines: int) -> str:
    return "".join(f"    x{n} = {n}\n" for n in range(lines))


def shape(tree: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/shape.py"), str(tree)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def write(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


BROKEN = {
    "a module of 401 lines": ("src/lumbre/cli/a.py", DOC + "\n" * 400, 1, "module of 401 lines"),
    "a function of 62 lines": ("src/lumbre/cli/a.py", f"{DOC}def f():\n{body(61)}", 2, "f: 62 lines"),
    "nine parameters": (
        "src/lumbre/cli/a.py",
        f"{DOC}def f({PARAMETERS}, *, i): ...\n",
        2,
        "f: 9 parameters",
    ),
    "no docstring": ("src/lumbre/cli/a.py", "x = 1\n", 1, "docstring"),
    "a module named for nothing": ("src/lumbre/cli/utils.py", DOC, 1, "named 'utils'"),
    "another word for a fragment": ("src/lumbre/cli/a.py", f"{DOC}class LayerShard: ...\n", 2, "'fragment'"),
    "another word for a switch": ("src/lumbre/cli/a.py", f"{DOC}gate_open = True\n", 2, "'switch'"),
    "os.environ": ("src/lumbre/cli/a.py", f"{DOC}import os\nx = os.environ\n", 3, "os.environ"),
    "getenv by name": ("src/lumbre/cli/a.py", f"{DOC}from os import getenv\n", 2, "os.getenv"),
    "a sleep": ("tests/test_a.py", f"{DOC}import time\ntime.sleep(1)\n", 3, "time.sleep"),
    "a sleep by name": ("src/lumbre/cli/a.py", f"{DOC}from time import sleep\n", 2, "time.sleep"),
    "a bare except": (
        "src/lumbre/cli/a.py",
        f"{DOC}try:\n    x = 1\nexcept:\n    x = 2\n",
        4,
        "blind except",
    ),
    "except Exception": (
        "src/lumbre/cli/a.py",
        f"{DOC}try:\n    x = 1\nexcept (OSError, Exception):\n    x = 2\n",
        4,
        "blind except",
    ),
    "unfinished work": ("src/lumbre/cli/a.py", f"{DOC}x = 1  # TO" + "DO: more\n", 2, "unfinished"),
    "a hole": (
        "src/lumbre/cli/a.py",
        f"{DOC}def f():\n    raise NotImplementedError\n",
        3,
        "NotImplementedError",
    ),
    "a global": ("src/lumbre/cli/a.py", f"{DOC}def f():\n    global x\n    x = 1\n", 3, "global"),
    "a call at import": (
        "src/lumbre/cli/a.py",
        f"{DOC}import logging\nlogging.basicConfig()\n",
        3,
        "at import",
    ),
    "a clock in core": ("src/lumbre/core/a.py", f"{DOC}import time\n", 2, "import of time in a pure room"),
    "dice in gateway": (
        "src/lumbre/gateway/a.py",
        f"{DOC}from random import random\n",
        2,
        "import of random",
    ),
    "asyncio in wire": ("src/lumbre/wire/sub/a.py", f"{DOC}import asyncio\n", 2, "import of asyncio"),
    "a pathlib in wire": ("src/lumbre/wire/a.py", f"{DOC}from pathlib import Path\n", 2, "import of pathlib"),
    "a network part": ("src/lumbre/wire/a.py", f"{DOC}from urllib import request\n", 2, "import of urllib"),
    "an await in core": ("src/lumbre/core/a.py", f"{DOC}async def f(): ...\n", 2, "never awaits"),
    "a file in core": (
        "src/lumbre/core/a.py",
        f'{DOC}def f():\n    return open("x")\n',
        3,
        "never calls open()",
    ),
    "the time of day in core": (
        "src/lumbre/core/a.py",
        f"{DOC}from datetime import datetime\ndef f():\n    return datetime.now()\n",
        4,
        "comes in as an argument",
    ),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_rule_is_named_with_its_file_and_line(tmp_path: Path, case: tuple[str, str, int, str]) -> None:
    name, text, line, message = case
    write(tmp_path, name, text)
    answer = shape(tmp_path)
    assert answer.returncode == 1, answer.stderr
    assert answer.stdout.startswith(f"{name}:{line}: ")
    assert message in answer.stdout
    assert answer.stdout.count("\n") == 1


KEPT = {
    "a module of 400 lines": ("src/lumbre/cli/a.py", DOC + "\n" * 399),
    "a function of 60 lines": ("src/lumbre/cli/a.py", f"{DOC}def f():\n{body(59)}"),
    "eight parameters and self": (
        "src/lumbre/cli/a.py",
        f"{DOC}class A:\n    def f(self, {PARAMETERS}): ...\n",
    ),
    "the environment in its one place": (
        "src/lumbre/runtime/settings.py",
        f"{DOC}import os\nx = os.environ\n",
    ),
    "the environment in a test": ("tests/test_a.py", f"{DOC}import os\nx = os.environ\n"),
    "an except that passes the error on": (
        "src/lumbre/cli/a.py",
        f"{DOC}try:\n    x = 1\nexcept BaseException:\n    x = 2\n    raise\n",
    ),
    "a clock in the runtime": ("src/lumbre/runtime/a.py", f"{DOC}import time\nimport asyncio\n"),
    "the gateway's own name": ("src/lumbre/cli/a.py", f"{DOC}gateway_url = ''\nclass GatewaySection: ...\n"),
    "pure parts in wire": ("src/lumbre/wire/a.py", f"{DOC}import json\nfrom urllib.parse import urlsplit\n"),
    "an empty package marker": ("tests/__init__.py", ""),
    "what is not ours": ("vendor/utils.py", "import time\ntime.sleep(1)\n"),
}


@pytest.mark.parametrize("case", KEPT.values(), ids=list(KEPT))
def test_what_keeps_the_rules_passes_in_silence(tmp_path: Path, case: tuple[str, str]) -> None:
    write(tmp_path, *case)
    answer = shape(tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "text",
    [
        "# shape: a table that reads best whole\n" + DOC + "\n" * 400,
        f"{DOC}def f(  # shape: one step after another\n    a,\n):\n{body(61)}",
        f"{DOC}def f({PARAMETERS}, i): ...  # shape: the signature is a foreign one\n",
        f"{DOC}try:\n    x = 1\nexcept Exception:  # shape: a plug-in may raise anything\n    x = 2\n",
    ],
    ids=["module", "function", "parameters", "except"],
)
def test_a_line_that_gives_a_reason_is_excused(tmp_path: Path, text: str) -> None:
    write(tmp_path, "src/lumbre/cli/a.py", text)
    assert shape(tmp_path).returncode == 0


def test_an_excuse_without_a_reason_excuses_nothing(tmp_path: Path) -> None:
    write(tmp_path, "src/lumbre/cli/a.py", f"{DOC}def f({PARAMETERS}, i): ...  # shape:\n")
    assert shape(tmp_path).returncode == 1


def test_every_finding_of_every_file_is_shown(tmp_path: Path) -> None:
    write(tmp_path, "src/lumbre/core/a.py", "import time\nimport random\n")
    write(tmp_path, "tools/b.py", "x = 1\n")
    lines = shape(tmp_path).stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "src/lumbre/core/a.py:1",
        "src/lumbre/core/a.py:1",
        "src/lumbre/core/a.py:2",
        "tools/b.py:1",
    ]
