"""Finds the lanes whose engines can do all that a request needs, before any work is done. Driver; what is needed and
what is lacking are `gateway.capability`'s to say, and what an engine cannot honour its table's.
"""

from collections.abc import Sequence
from dataclasses import replace

from lumbre.core.errors import CallerError
from lumbre.gateway.capability import UNKNOWN, Need, lack, may_exceed, need_of
from lumbre.runtime.call import Call
from lumbre.runtime.lanes import Lane
from lumbre.runtime.speech import own_words
from lumbre.runtime.token_count import TokenCounter
from lumbre.wire.openai.fields import refuse_unsupported


async def able_lanes(lanes: Sequence[Lane], call: Call, model: str | None, counter: TokenCounter) -> list[Lane]:
    """The lanes that can honour all of a request.

    Args:
        model: the one that the decision names; None: each lane's own choice.
        counter: asks an engine how long the prompt is, where that could matter.

    Raises:
        CallerError: none can; what the first of them says.
    """
    need: Need | None = None
    able = []
    first: CallerError | None = None
    for lane in lanes:
        capability, refusals = lane.capability(model), lane.traits.refusals.get(call.asked, ())
        if not refusals and capability == UNKNOWN:
            able.append(lane)
            continue
        need = need or need_of(call.body, call.asked)
        put = need if own_words(call, lane) is None else replace(need, endpoint=call.endpoint.lstrip("/"))
        refusal = await _refusal(lane, call, model, put, counter)
        if refusal is None:
            able.append(lane)
        elif first is None:
            first = refusal
    if first is not None and not able:
        raise first
    return able


async def _refusal(lane: Lane, call: Call, model: str | None, need: Need, counter: TokenCounter) -> CallerError | None:
    try:
        refuse_unsupported(call.body, lane.traits.refusals.get(call.asked, ()), lane.traits.name)
    except CallerError as error:
        return error
    capability = lane.capability(model)
    if (refusal := lack(need, capability, lane.id)) is not None:
        return refusal
    if (
        may_exceed(need, capability)
        and (counted := await counter.count(lane, call.asked, call.body, model)) is not None
    ):
        return lack(replace(need, prompt_tokens=counted), capability, lane.id)
    return None
