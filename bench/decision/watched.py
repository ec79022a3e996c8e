"""The gateway, as `lumbre` starts it, with one thing more: at SIGUSR1 it writes down which tasks its loop has. Run as

python bench/decision/watched.py FILE up …
"""

import asyncio
import json
import signal
import sys
from collections import Counter
from pathlib import Path

from lumbre.cli.main import main


def tell_tasks(path: Path) -> None:
    """Write how many tasks there are, by what they run; whole or not at all."""
    names = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    part = path.with_suffix(".part")
    part.write_text(json.dumps(names), encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    signal.signal(signal.SIGUSR1, lambda *_: tell_tasks(file))
    sys.exit(main())
