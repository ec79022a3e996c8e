"""Finds names in the project's files that only mean something on one machine. Impure; driven by `make check`.

A lock that names an index, or a text that names a folder of the machine it was written on, is of no use
elsewhere.
The patterns are put together from pieces, so that this file passes its own check.
"""

import re
import sys
from pathlib import Path

from files import project_files

HOSTS = ("pypi|pythonhosted", "npmjs", "yarnpkg", "deb[.]debian|security[.]debian|archive[.]ubuntu")
ENDS = ("org", "org|com", "com", "org|com")
FOLDERS = ("work", "root", "opt/pypi", "opt/wheels", "tmp/dev")

PATTERNS = (
    *(
        (re.compile(rf"\b(?:{host})[.](?:{end})\b", re.IGNORECASE), "names the host of a package registry")
        for host, end in zip(HOSTS, ENDS, strict=True)
    ),
    *((re.compile(rf"(?<![\w.\-])/{folder}(?:/|\b)"), "names a folder of one machine") for folder in FOLDERS),
    (re.compile(r"[.][.]/" + "shared" + r"\b"), "names a folder outside the project"),
)


def main(arguments: list[str]) -> int:
    """Print `file:line: message` for each trace under the folder given (default: this one); 1 if any."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = 0
    for path in project_files(root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            for pattern, message in PATTERNS:
                if hit := pattern.search(line):
                    found += 1
                    sys.stdout.write(f"{path.relative_to(root)}:{number}: {message}: {hit.group()}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
