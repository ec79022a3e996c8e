"""Watches one upstream that somebody else keeps running: probes it, reads its models and what it can do, writes its
lane. Driver; the verdicts are `gateway.health`'s and its breaker's.
"""

import asyncio

from lumbre.backends.permit import Address
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import SwitchClosed, UpstreamError
from lumbre.gateway.breaker import Seen
from lumbre.gateway.health import HealthState, probed_badly, probed_well
from lumbre.runtime.capability import CapabilityReader
from lumbre.runtime.lanes import Changed, Lane, Saw, read_catalogue


class Prober:
    """Probes an upstream with `GET /models` every `probe_s` seconds, and at once when a request found it broken."""

    def __init__(
        self,
        lane: Lane,
        address: Address,
        outbound: Outbound,
        on_change: Changed,
        saw: Saw,
        *,
        probe_s: float,
        failures: int,
    ) -> None:
        self._lane = lane
        self._address = address
        self._outbound = outbound
        self._on_change = on_change
        self._saw = saw
        self._probe_s = probe_s
        self._failures = failures
        self._reader = CapabilityReader(lane, outbound)
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            self._hurry.clear()
            await self._probe()
            try:
                async with asyncio.timeout(self._probe_s):
                    await self._hurry.wait()
            except TimeoutError:
                continue

    def suspect(self) -> None:
        """A request could not reach it: look now instead of at the next turn."""
        self._hurry.set()

    async def _probe(self) -> None:
        lane = self._lane
        permit = lane.permit(self._address)
        seen, reason = Seen.PROBED_WELL, None
        try:
            catalogue = await read_catalogue(self._outbound, permit, timeout_s=max(self._probe_s, 1.0))
        except SwitchClosed:
            # A closed switch stops probes too. Nothing has been seen; who opens it has it probed at once.
            lane.settled = True
            self._on_change(lane)
            return
        except UpstreamError as error:
            seen, reason = Seen.PROBE_FAILED, error.message
            lane.health = probed_badly(lane.health, error.message, self._failures)
            if lane.health.state is not HealthState.READY:
                self._reader.forget()
        else:
            # Before the first request goes there: what it can do is to be known by then.
            await self._reader.read(permit, catalogue)
            lane.health = probed_well()
            lane.models, lane.asked = catalogue.models, True
            lane.traits = catalogue.traits
            lane.address = self._address
        lane.settled = True
        self._saw(lane, seen, reason)
        self._on_change(lane)
