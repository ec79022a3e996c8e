"""Asks a supervised engine whether it is well. Driven by the supervisor, which sets the deadline."""

from lumbre.backends.permit import Address, looking
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import UpstreamError

_NO_SUCH_PAGE = (404, 405)
_TIMEOUT_S = 30.0


class HealthProbe:
    """GET `/health`; where a server has no such page, GET `/v1/models` with the key."""

    def __init__(self) -> None:
        self._outbound = Outbound(user_agent="lumbre-probe")

    async def __call__(self, address: str, api_key: str) -> bool:
        """Whether the engine at `address` says that it can work."""
        place = Address(address, api_key)
        try:
            status, _, _ = await self._outbound.get(looking(place), "/health", _TIMEOUT_S)
            if status in _NO_SUCH_PAGE:
                status, _, _ = await self._outbound.get(looking(place), "/v1/models", _TIMEOUT_S)
        except UpstreamError:
            return False
        return status == 200

    async def close(self) -> None:
        """Let go of the connections."""
        await self._outbound.close()
