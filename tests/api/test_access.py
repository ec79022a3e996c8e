"""Which Host and Origin may come in, by name and by port."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from lumbre.api.access import Access
from lumbre.api.app import Cors


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def ask(asked: Any, headers: Mapping[str, str]) -> tuple[int, dict[str, str]]:
    """The status and the headers that an ASGI app answers with."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await asked({"type": "http", "method": "GET", "path": "/", "headers": raw}, receive, send)
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def status(headers: Mapping[str, str], *, hosts: tuple[str, ...] = (), origins: tuple[str, ...] = ()) -> int:
    access = Access(app, hosts=hosts, origins=origins, beyond_loopback=False)
    return asyncio.run(ask(access, headers))[0]


@pytest.mark.parametrize(
    ("host", "allowed", "expected"),
    [
        ("localhost:8484", (), 200),
        ("LOCALHOST", (), 200),
        ("127.0.0.1:8484", (), 200),
        ("[::1]:8484", (), 200),
        ("evil.example", (), 403),
        ("chat.lan:8484", ("chat.lan",), 200),
        ("chat.lan:8484", ("Chat.LAN:8484",), 200),
        ("chat.lan:9999", ("chat.lan:8484",), 403),
        ("chat.lan", ("chat.lan:8484",), 403),
        ("chat.lan", ("chat.lan:80",), 200),
        ("[fd00::1]:8484", ("fd00::1",), 200),
        ("[fd00::1]:8484", ("[fd00::1]",), 200),
        ("[fd00::1]:8484", ("[fd00::1]:8484",), 200),
        ("[fd00::1]:8484", ("[fd00::1",), 403),
        ("[::1", (), 403),
        ("", ("[::1",), 403),
    ],
)
def test_a_host_is_allowed_by_its_name_or_with_its_port(host: str, allowed: tuple[str, ...], expected: int) -> None:
    assert status({"host": host}, hosts=allowed) == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8484", 200),
        ("https://chat.example", 200),
        ("HTTPS://CHAT.EXAMPLE", 200),
        ("https://chat.example:444", 403),
        ("http://[", 403),
        ("null", 403),
    ],
)
def test_an_origin_is_our_own_or_an_allowed_one(origin: str, expected: int) -> None:
    headers = {"host": "localhost:8484", "origin": origin}
    assert status(headers, origins=("https://Chat.example/",)) == expected


def test_an_origin_in_capitals_is_let_through_by_both_checks_or_by_none() -> None:
    cors = Cors(app, allow_origins=["https://chat.example"])
    _, headers = asyncio.run(ask(cors, {"origin": "https://Chat.Example"}))
    assert headers["access-control-allow-origin"] == "https://Chat.Example"
