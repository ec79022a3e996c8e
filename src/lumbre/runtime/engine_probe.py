"""Asks a supervised engine whether it is well. Driven by the supervisor, which sets the deadline."""

import aiohttp

_NO_SUCH_PAGE = (404, 405)


class HealthProbe:
    """GET `/health`; where a server has no such page, GET `/v1/models` with the key."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, address: str, api_key: str) -> bool:
        """Whether the engine at `address` says that it can work."""
        try:
            status = await self._get(f"{address}/health", api_key)
            if status in _NO_SUCH_PAGE:
                status = await self._get(f"{address}/v1/models", api_key)
        except aiohttp.ClientError:
            return False
        return status == 200

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _get(self, url: str, api_key: str) -> int:
        if self._session is None:  # made here: a session belongs to the loop it was made in
            # A kept connection could end in an engine that was killed since.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        bearer = {"Authorization": f"Bearer {api_key}"}
        async with self._session.get(url, headers=bearer, allow_redirects=False) as reply:
            return reply.status
