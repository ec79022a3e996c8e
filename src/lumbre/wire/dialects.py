"""How the replies of each API are read: as a stream, folded, and as one object. A pure table; the dispatcher picks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lumbre.wire.anthropic.fold import MessageFold
from lumbre.wire.anthropic.mending import mended
from lumbre.wire.anthropic.story import MessageStory
from lumbre.wire.anthropic.whole import choices_of_message, count_of_message
from lumbre.wire.openai.fold import Fold
from lumbre.wire.openai.story import Choice, Story, Usage, choices_of, count_of
from lumbre.wire.sse import Event
from lumbre.wire.translation import Folding, Following


@dataclass(frozen=True)
class Dialect:
    """One API's replies.

    Attributes:
        follow: makes what follows a stream; told whether to keep the text, and how many alternatives were asked for.
        fold: makes what folds a stream.
        count: the tokens that a reply of one object says it took (None if it says nothing of them). `MalformedReply`
            if it is no reply of this API.
        choices: the alternatives of such a reply, for its checks.
        mend: corrects what an engine is known to say wrongly in this API.
    """

    follow: Callable[[bool, int], Following]
    fold: Callable[[], Folding]
    count: Callable[[Mapping[str, Any]], Usage | None]
    choices: Callable[[Mapping[str, Any]], Sequence[Choice]]
    mend: Callable[[Event], Event] | None = None


OPENAI = Dialect(lambda keep_text, choices: Story(keep_text=keep_text, choices=choices), Fold, count_of, choices_of)
MESSAGES = Dialect(
    lambda keep_text, _choices: MessageStory(keep_text=keep_text),
    MessageFold,
    count_of_message,
    choices_of_message,
    mended,
)
