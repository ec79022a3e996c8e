"""Decides what a hub's answer means and whether to ask again. Drives `hub_child`; `store` calls it."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from lumbre.core.errors import OperatorError
from lumbre.runtime.models import child
from lumbre.runtime.models.child import TransferError
from lumbre.runtime.models.content import is_gguf, sha256_of
from lumbre.runtime.models.fetching import Fetched, Fetching
from lumbre.runtime.models.hub_child import MARK
from lumbre.runtime.models.names import HubRef

FINAL = {
    "gated": "its owner asks you to accept their terms first: do so on its page, then set HF_TOKEN",
    "no_repository": "there is no such repository, or it is private: check the name, or set HF_TOKEN",
    "no_revision": "the repository has no such revision: check what follows the @",
    "no_file": "the repository has no such file: check the path, with its capitals, on the repository's page",
    "disabled": "the hub has disabled this repository",
    "offline": "HF_HUB_OFFLINE is set: unset it",
}
"""Failures that trying again cannot mend, by the word `hub_child` says, and the way out of each."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


class _Story:
    """What the child has said so far."""

    def __init__(self, fetching: Fetching) -> None:
        self._fetching = fetching
        self.facts: dict[str, Any] = {}

    def take(self, line: str) -> None:
        if line.startswith(MARK):
            self.facts.update(json.loads(line.removeprefix(MARK)))
            if "size" in self.facts and "failed" not in self.facts:
                self._fetching.need_room(self.size_bytes)

    @property
    def size_bytes(self) -> int:
        return int(self.facts.get("size") or 0)

    @property
    def sha256(self) -> str:
        """What the hub says the file hashes to; empty for a small file that it keeps another way."""
        etag = str(self.facts.get("etag") or "")
        return etag if _SHA256.fullmatch(etag) else ""


def fetch(ref: HubRef, fetching: Fetching) -> Fetched:
    """One attempt; within it the hub's own client goes on where a cut transfer stopped."""
    work = fetching.folder / "hub"
    work.mkdir(exist_ok=True)
    fetching.tell("download")
    story = _Story(fetching)
    watch = child.Watch(
        folder=work,
        silence_s=fetching.patience.silence_s,
        on_bytes=lambda now: fetching.tell("download", now, story.size_bytes),
        on_line=story.take,
    )
    ended = child.run(_words(ref, work), watch)
    if (word := story.facts.get("failed")) is not None:
        raise OperatorError(f"cannot fetch {ref.name}: {FINAL[word]}", code="model_fetch_failed")
    file = work / ref.path
    if ended.code != 0 or not file.is_file():
        raise TransferError(ended.lines[-1] if ended.lines else f"the hub's client ended with status {ended.code}")
    return Fetched(file, _checked(file, story, fetching), f"{ref.repo} at {story.facts.get('commit')}")


def _checked(file: Path, story: _Story, fetching: Fetching) -> str:
    found = sha256_of(file, lambda done: fetching.tell("verify", done, story.size_bytes))
    if story.sha256 and found != story.sha256:
        file.unlink()
        raise TransferError(f"the file hashes to {found} and should to {story.sha256}")
    if not is_gguf(file):
        raise OperatorError(f"what {fetching.name} names is not a GGUF file", code="model_file")
    return found


def _words(ref: HubRef, work: Path) -> list[str]:
    environment = [
        "HF_HUB_DISABLE_TELEMETRY=1",
        "HF_HUB_DISABLE_PROGRESS_BARS=1",
        "HF_HUB_DISABLE_UPDATE_CHECK=1",
    ]
    program = [sys.executable, "-P", "-m", "lumbre.runtime.models.hub_child"]
    return ["/usr/bin/env", *environment, *program, ref.repo, ref.path, ref.revision or "main", str(work)]
