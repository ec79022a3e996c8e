"""The program that is pip, and ends when its parent does: a killed fetch leaves nobody that writes into the cache.

Impure; `wheels` starts it with pip's own arguments, reads its lines and ends it.
"""

import runpy
import sys

from lumbre.runtime.models import leash


def main(words: list[str]) -> None:
    """Run pip, which exits with its own status."""
    leash.hold()
    sys.argv = ["pip", *words]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
