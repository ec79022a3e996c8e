"""Which call each fragment of a streamed tool call belongs to, and what it adds to the call's name. Pure; whatever puts
calls together asks it, so that all of them make the same calls of the same stream.

The API numbers the calls of a reply, and each fragment says the number of its own. Some engines number none and send
one whole call in each chunk, some number all 0 and tell them apart by their ids, some say the name again in each
fragment. So calls are counted here, in the order in which they begin.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_CALLS = 128
"""In one reply; the API's own limit."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment in its place.

    Attributes:
        number: of its call, from 0 in the order in which calls begin.
        name: what it adds to the call's name; empty where it only says again what is known.
    """

    number: int
    name: str


@dataclass(slots=True)
class _Call:
    number: int
    id: str = ""
    name: str = ""
    has_arguments: bool = False


class CallFragments:
    """The calls of one reply, as far as their fragments have come."""

    def __init__(self) -> None:
        self._count = 0
        self._latest: dict[int | None, _Call] = {}
        """By the engine's number; by None, whichever was spoken of last."""
        self._known: dict[tuple[int | None, str], _Call] = {}
        """By the engine's number and the id; those under None are of any number."""

    def take(self, fragment: Mapping[str, Any], position: int = 0) -> Fragment | None:
        """Find a fragment's place. What in it is of the wrong type counts as not said.

        Args:
            position: of the fragment in its list.

        Returns:
            None if the engine's number is no sensible one, or there are more calls than `MOST_CALLS`.
        """
        index = fragment.get("index")
        if index is not None and (type(index) is not int or not 0 <= index < MOST_CALLS):
            return None
        function = fragment.get("function")
        told: Mapping[str, Any] = function if isinstance(function, dict) else {}
        said, name, arguments = _text(fragment, "id"), _text(told, "name"), _text(told, "arguments")
        call = self._known.get((index, said)) or self._latest.get(index)
        if call is None or (name and _is_another(call, said, name, index, position)):
            if self._count == MOST_CALLS:
                return None
            call = _Call(self._count)
            self._count += 1
        self._spoken(call, index, said)
        added = "" if name == call.name else name
        call.name += added
        call.has_arguments = call.has_arguments or bool(arguments.strip())
        return Fragment(call.number, added)

    def _spoken(self, call: _Call, index: int | None, said: str) -> None:
        self._latest[index] = self._latest[None] = call
        if said and not call.id:
            call.id = said
            self._known[index, said] = self._known[None, said] = call


def _is_another(call: _Call, said: str, name: str, index: int | None, position: int) -> bool:
    """Whether a fragment with a name begins a call, rather than goes on with the one at its place.

    Without a name none begins: some engines make a new id for each fragment of one call.
    """
    if said and call.id and said != call.id:
        return True
    if index is None:
        return call.has_arguments or position > 0
    return call.has_arguments and not said and name != call.name


def _text(source: Mapping[str, Any], key: str) -> str:
    value = source.get(key)
    return value if isinstance(value, str) else ""
