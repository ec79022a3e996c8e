"""The first question of `lumbre up --ask`: asked over HTTP like anybody's, so that what it shows is the real thing.
Driver.
"""

import asyncio
import sys

from lumbre.cli.client import Gateway, events
from lumbre.cli.shell import Shell
from lumbre.core.errors import LumbreError

_ANSWER_TOKENS = 200


class FirstQuestion:
    """Asks, prints the answer as it comes, and then how to go on.

    Args:
        with_key: the gateway demands a key, so only the reader has it and no question can be asked here.
    """

    def __init__(self, shell: Shell, url: str, question: str, *, with_key: bool) -> None:
        self._shell = shell
        self._url = url
        self._question = question
        self._with_key = with_key

    async def ask(self) -> None:
        """Ask; a failure is told, and the gateway serves on."""
        if not self._with_key:
            try:
                await asyncio.to_thread(self._converse)
            except LumbreError as error:
                self._shell.failed(error)
        if not self._shell.json:
            auth = ' -H "Authorization: Bearer $LUMBRE_KEY"' if self._with_key else ""
            self._shell.say("serve.paste", url=self._url, auth=auth, key="…" if self._with_key else "none")

    def _converse(self) -> None:
        body = {
            "model": "auto",
            "messages": [{"role": "user", "content": self._question}],
            "max_tokens": _ANSWER_TOKENS,
            "temperature": 0,
        }
        text = ""
        if not self._shell.json:
            self._shell.line(f"\n> {self._question}")
        for event in events(Gateway(self._url, words=self._shell.words), body):
            for choice in event.get("choices") or ():
                piece = (choice.get("delta") or {}).get("content") or ""
                text += piece
                if choice.get("finish_reason") == "length":
                    piece += " …"
                if not self._shell.json:
                    sys.stdout.write(piece)
                    sys.stdout.flush()
        if self._shell.json:
            self._shell.data({"event": "answer", "question": self._question, "text": text})
        else:
            self._shell.line("\n")
