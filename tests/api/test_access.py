"""Which Host and Origin may come in, by name and by port, and with which key."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from lumbre.api.access import Access
from lumbre.api.app import Cors
from lumbre.core.errors import CallerError
from lumbre.runtime.keys import Keys


def status(headers: Mapping[str, str], *, hosts: tuple[str, ...] = (), origins: tuple[str, ...] = ()) -> int:
    access = Access(hosts=hosts, origins=origins, beyond_loopback=False, keys=None)
    try:
        access.check("/v1/models", headers)
    except CallerError as error:
        return error.status
    return 200


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
        ("localhost/x", (), 403),
        ("localhost?x", (), 403),
        ("localhost#x", (), 403),
        ("evil.example@localhost", (), 403),
        ("localhost:8484@evil.example", (), 403),
        ("evil.example\\@localhost", (), 403),
        ("localhost, evil.example", (), 403),
        ("127.0.0.1.evil.example", (), 403),
        ("127.0.0.1 evil.example", (), 403),
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


@pytest.mark.parametrize("origin", ["https://Chat.Example", "HTTPS://CHAT.EXAMPLE", "https://chat.example"])
def test_an_origin_in_capitals_is_let_through_by_both_checks_or_by_none(origin: str) -> None:
    access = Access(hosts=(), origins=("https://chat.example/",), beyond_loopback=False, keys=None)
    assert access.allows_page(origin)
    assert Cors(nothing, allow_origins=["https://chat.example"]).is_allowed_origin(origin)
    assert status({"host": "localhost", "origin": origin}, origins=("https://chat.example/",)) == 200


def test_a_host_that_was_asked_about_is_answered_alike_the_next_time() -> None:
    access = Access(hosts=(), origins=(), beyond_loopback=False, keys=None)
    for _ in range(2):
        access.check("/", {"host": "localhost:8484"})
        with pytest.raises(CallerError):
            access.check("/", {"host": "evil.example"})


@pytest.mark.parametrize(
    ("headers", "path", "admitted"),
    [
        ({"authorization": "Bearer KEY"}, "/v1/models", True),
        ({"authorization": "bearer  KEY "}, "/v1/models", True),
        ({"x-api-key": "KEY"}, "/v1/models", True),
        ({"authorization": "Bearer KEY, Bearer KEY"}, "/v1/models", False),
        ({"authorization": "Basic KEY"}, "/v1/models", False),
        ({"authorization": "Bearer wrong", "x-api-key": "KEY"}, "/v1/models", False),
        ({}, "/v1/models", False),
        ({}, "/healthz", True),
        ({}, "/healthz/", False),
    ],
)
def test_a_key_is_asked_for_everywhere_but_at_the_open_paths(
    tmp_path: Path, headers: dict[str, str], path: str, admitted: bool
) -> None:
    keys = Keys(tmp_path)
    told = {name: value.replace("KEY", keys.make()) for name, value in headers.items()}
    access = Access(hosts=(), origins=(), beyond_loopback=False, keys=keys)
    if admitted:
        access.check(path, {"host": "localhost", **told})
        return
    with pytest.raises(CallerError) as caught:
        access.check(path, {"host": "localhost", **told})
    assert (caught.value.status, caught.value.headers) == (401, {"www-authenticate": "Bearer"})
    access.check(path, {"host": "localhost", **told}, preflight=True)


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Be an app that says nothing."""
    del scope, receive, send
