"""Which HTTP headers cross the gateway, in each direction. Pure; both are allow-lists, so what is new stays out."""

from collections.abc import Iterable, Mapping

REQUEST_HEADERS = frozenset(
    {
        "accept",
        "traceparent",
        "tracestate",
        "openai-beta",
        "anthropic-version",
        "anthropic-beta",
        "idempotency-key",
    }
)
"""What a caller's request may tell an upstream. No cookies, no credentials: the gateway has its own key for each."""

_REPLY_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms", "openai-processing-ms", "openai-version"})
_REPLY_PREFIXES = ("x-ratelimit-", "ratelimit", "anthropic-ratelimit-")


def forwarded_request(headers: Mapping[str, str]) -> dict[str, str]:
    """The caller's headers that go upstream; names in lower case."""
    if REQUEST_HEADERS.isdisjoint(headers):
        return {}
    return {name: headers[name] for name in REQUEST_HEADERS & headers.keys()}


def forwarded_reply(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The upstream's headers that reach the caller; names in lower case."""
    return [(name, value) for name, value in headers if name in _REPLY_HEADERS or name.startswith(_REPLY_PREFIXES)]
