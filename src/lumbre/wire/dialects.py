"""How the replies of each API are read: as a stream, folded, and as one object. A pure table; the dispatcher picks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lumbre.wire.anthropic.fold import MessageFold
from lumbre.wire.anthropic.mending import Mender
from lumbre.wire.anthropic.story import MessageStory
from lumbre.wire.anthropic.whole import choices_of_message, count_of_message
from lumbre.wire.openai.fold import Fold
from lumbre.wire.openai.story import Choice, Story, Usage, choices_of, count_of
from lumbre.wire.sse import Event
from lumbre.wire.translation import Folding, Following


class MakesFolding(Protocol):
    """See `Dialect.fold`."""

    def __call__(self, message_id: str = ..., model: str = ..., /) -> Folding:
        """Make a new one."""


@dataclass(frozen=True)
class Dialect:
    """One API's replies.

    Attributes:
        follow: makes what follows a stream; told whether to keep the text, and how many alternatives were asked for.
        fold: makes what folds a stream; told the id and the model's name that a reply has if its engine says none.
        count: the tokens that a reply of one object says it took (None if it says nothing of them). `MalformedReply`
            if it is no reply of this API.
        choices: the alternatives of such a reply, for its checks.
        mend: makes, told the same two, what corrects the events of one stream that engines are known to say wrongly;
            None if nothing is.
    """

    follow: Callable[[bool, int], Following]
    fold: MakesFolding
    count: Callable[[Mapping[str, Any]], Usage | None]
    choices: Callable[[Mapping[str, Any]], Sequence[Choice]]
    mend: Callable[[str, str], Callable[[Event], Event]] | None = None


def _openai_fold(_message_id: str = "", _model: str = "") -> Fold:
    return Fold()  # such a reply says both in each chunk


OPENAI = Dialect(
    lambda keep_text, choices: Story(keep_text=keep_text, choices=choices), _openai_fold, count_of, choices_of
)
MESSAGES = Dialect(
    lambda keep_text, _choices: MessageStory(keep_text=keep_text),
    MessageFold,
    count_of_message,
    choices_of_message,
    Mender,
)
