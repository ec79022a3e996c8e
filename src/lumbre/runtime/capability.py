"""Asks an upstream what it can do, each kind of engine in its own way. Driver; the prober and the engine's lane drive
it, `backends.capability` reads the answers.

It fails softly: an engine that does not say, or not in time, is asked again later, and may be sent anything until then.
"""

import asyncio
from collections.abc import Mapping

import orjson

from lumbre.backends.capability import of_llama_cpp, of_lm_studio, of_ollama
from lumbre.backends.permit import Permit
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import SwitchClosed, UpstreamError
from lumbre.gateway.capability import Capability
from lumbre.runtime.lanes import Catalogue, Lane

READ_AGAIN_S = 60.0
"""An engine may be given another model, or another context, under the same name."""

_PATIENCE_S = 2.0
"""For all of an upstream's answers: its first request waits for them."""


class CapabilityReader:
    """Keeps what one lane's upstream can do, and knows when to ask again."""

    def __init__(self, lane: Lane, outbound: Outbound) -> None:
        self._lane = lane
        self._outbound = outbound
        self._of: Catalogue | None = None
        self._read_at = 0.0

    def forget(self) -> None:
        """The upstream was gone: whatever comes back is asked anew."""
        self._of = None

    async def read(self, permit: Permit, catalogue: Catalogue) -> None:
        """Write to the lane what its upstream can do, if its catalogue has changed or it was last asked long ago."""
        now = asyncio.get_running_loop().time()
        if catalogue == self._of and now - self._read_at < READ_AGAIN_S:
            return
        self._of, self._read_at = catalogue, now
        told = dict(catalogue.capabilities)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._ask(permit, catalogue, told)
        except (TimeoutError, UpstreamError, SwitchClosed):
            for model, known in self._lane.capabilities.items():
                told.setdefault(model, known)
        own = self._lane.model
        if own and own not in told and len(catalogue.models) == 1:
            # A server of one model answers with it whatever it is asked for.
            told[own] = told.get(catalogue.models[0], Capability())
        self._lane.learn(told)

    async def _ask(self, permit: Permit, catalogue: Catalogue, told: dict[str, Capability]) -> None:
        root = permit.at(permit.address.base_url.removesuffix("/v1"))
        match catalogue.traits.tells:
            case "props" if len(catalogue.models) == 1:
                _put(told, {catalogue.models[0]: of_llama_cpp(await self._get(root, "/props"))})
            case "api_v0":
                _put(told, of_lm_studio(await self._get(root, "/api/v0/models")))
            case "show":
                for model in self._own_first(catalogue.models):
                    _put(told, {model: of_ollama(await self._show(root, model))})
            case _:
                return  # its model list has said all there is

    async def _get(self, root: Permit, path: str) -> object:
        status, _, document = await self._outbound.get(root, path, _PATIENCE_S)
        return document if status == 200 else None

    async def _show(self, root: Permit, model: str) -> object:
        status, document = await self._outbound.ask(root, "/api/show", orjson.dumps({"model": model}), _PATIENCE_S)
        return document if status == 200 else None

    def _own_first(self, models: tuple[str, ...]) -> list[str]:
        """An Ollama may have many, and knows each by a shorter name too, such as the one in the settings."""
        own = (self._lane.model,) if self._lane.model else ()
        return list(dict.fromkeys((*own, *models)))


def _put(told: dict[str, Capability], more: Mapping[str, Capability]) -> None:
    for model, capability in more.items():
        told[model] = capability.over(told.get(model, Capability()))
