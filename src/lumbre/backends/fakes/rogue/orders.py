"""What a test orders the rogue to do, whatever the requests themselves say. Pure; `rogue.server` asks for each request.

A request that is sent to several rogues in turn cannot say what each of them shall do, and one that has been told in
another API's words has lost its wish.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lumbre.backends.fakes.rogue.wish import Ask, checked


class Orders:
    """The one order that holds, if any."""

    def __init__(self) -> None:
        self._wish: Mapping[str, Any] = {}
        self._left: int | None = None

    def give(self, wish: object, times: int) -> None:
        """Order something for the next so many requests, in place of what was ordered before.

        Args:
            wish: as in a request; an empty one: nothing is ordered any more.
            times: 0 for every request from now on.

        Raises:
            WishError: it means nothing.
        """
        self._wish, self._left = checked(wish), times or None

    def take(self, ask: Ask) -> Ask:
        """What is to be done with a request: the order over its own wish."""
        if not self._wish:
            return ask
        wish = self._wish
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._wish = {}
        return replace(ask, wish=replace(ask.wish, **wish))
