"""Finds the lanes whose engines can do all that a request needs, before any work is done. Driver; what is needed and
what is lacking are `gateway.capability`'s to say, and what an engine cannot honour its table's.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lumbre.core.errors import CallerError
from lumbre.gateway.capability import UNKNOWN, Need, lack, may_exceed, need_of
from lumbre.runtime.call import Call
from lumbre.runtime.lanes import Lane
from lumbre.runtime.speech import own_words
from lumbre.wire.anthropic.from_chat import cannot
from lumbre.wire.openai.fields import refuse_unsupported

Count = Callable[[Lane, Mapping[str, Any]], Awaitable[int | None]]
"""Asks an engine how many tokens a request's prompt is; None if it does not say."""

_ONE_OF_SEVERAL = re.compile(r"(\w+)\[(\d+)\]")


def must_look(lanes: Sequence[Lane], call: Call, model: str | None) -> bool:
    """Whether anything is known of these lanes by which `able_lanes` could choose."""
    for lane in lanes:  # noqa: SIM110 a generator costs twice the loop, for every request
        if lane.traits.refusals.get(call.asked) or lane.capability(model) is not UNKNOWN:
            return True
    return False


async def able_lanes(
    lanes: Sequence[Lane], call: Call, model: str | None, count: Count
) -> tuple[list[Lane], dict[str, CallerError]]:
    """The lanes that can honour all of a request, and by its id what each of the others says of it.

    Args:
        model: the one that the decision names; None: each lane's own choice.
        count: asked where the length of the prompt could matter; of several prompts, for the longest.

    Raises:
        LumbreError: what `count` raises.
    """
    about = call.body, call.asked
    need: Need | None = None
    able: list[Lane] = []
    lacks: dict[str, CallerError] = {}
    for lane in lanes:
        capability, refusals = lane.capability(model), lane.traits.refusals.get(call.asked, ())
        if not refusals and capability == UNKNOWN:
            able.append(lane)
            continue
        if need is None:
            need = await asyncio.to_thread(need_of, *about) if call.is_large else need_of(*about)
        put = need if own_words(call, lane) is None else replace(need, endpoint=call.endpoint.lstrip("/"))
        refusal = await _refusal(lane, call, model, put, count)
        if refusal is None:
            able.append(lane)
        else:
            lacks[lane.id] = refusal
    return able, lacks


async def _refusal(lane: Lane, call: Call, model: str | None, need: Need, count: Count) -> CallerError | None:
    try:
        refuse_unsupported(call.body, lane.traits.refusals.get(call.asked, ()), lane.traits.name)
    except CallerError as error:
        return error
    capability = lane.capability(model)
    if (refusal := lack(need, capability, lane.id)) is not None:
        return refusal
    if lane.api == "anthropic" and own_words(call, lane) is None and (refused := cannot(call.body)) is not None:
        return refused
    if not may_exceed(need, capability):
        return None
    counted = await count(lane, _with_one_prompt(call.body, need.longest))
    return None if counted is None else lack(replace(need, prompt_tokens=counted), capability, lane.id)


def _with_one_prompt(body: Mapping[str, Any], longest: str) -> Mapping[str, Any]:
    """The request as it would be with the longest of its prompts alone."""
    found = _ONE_OF_SEVERAL.fullmatch(longest)
    return body if found is None else {**body, found[1]: body[found[1]][int(found[2])]}
