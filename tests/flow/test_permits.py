"""Nothing reaches a backend without leave: not by another way out, not with anything but a permit, not with leave that
has been taken back meanwhile.
"""

import ast
import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lumbre
from lumbre.backends.permit import Address, Permit
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import SwitchClosed
from lumbre.gateway.deadlines import Deadlines
from lumbre.gateway.switches import covering
from lumbre.ledger.store import utc_now
from lumbre.runtime.board import Board

SOURCE = Path(lumbre.__file__).parent
LIMITS = Deadlines(connect_s=5, header_s=5, first_token_s=5, idle_s=5, total_s=9, keepalive_s=9)

CONNECTS = frozenset(
    {
        "create_connection",
        "create_unix_connection",
        "create_datagram_endpoint",
        "open_connection",
        "open_unix_connection",
        "sock_connect",
        "connect_ex",
        "HTTPConnection",
        "HTTPSConnection",
        "urlopen",
        "build_opener",
    }
)
"""Names by which Python opens a connection."""

CLIENTS = frozenset(
    {
        "socket",
        "http.client",
        "urllib.request",
        "urllib3",
        "requests",
        "httpx",
        "httpcore",
        "aiohttp",
        "websockets",
        "grpc",
        "huggingface_hub",
        "openai",
        "anthropic",
        "ftplib",
        "smtplib",
        "xmlrpc.client",
    }
)
"""Modules that open connections, or can be used to."""

WAYS_OUT = {
    "backends/exchange.py": "the one way to a backend; `Opening` asks its permit before it sends",
    "backends/llama_child.py": "an engine's own process, which asks the engine that it runs",
    "cli/client.py": "the shell's client of a gateway, which is no backend",
    "runtime/machine.py": "`doctor` sees whether a port is taken, and what answers there",
    "runtime/models/hub_child.py": "fetches a model's file, and sends nothing of anybody's",
    "runtime/launches.py": "binds a socket to find a free port, and connects nowhere",
    "api/access.py": "asks what this machine is called, and connects nowhere",
    "api/server.py": "listens",
    "cli/server.py": "listens",
    "backends/fakes/rogue/wire.py": "a fake of a backend; it listens",
}
"""Who may hold one of these, and why."""

MAKERS = {
    "Permit": {
        "backends/permit.py": "a permit for another path of the same server; and `looking`",
        "runtime/lanes.py": "a lane's own: an upstream is asked about itself, with its switches asked before",
        "runtime/tier.py": "a request's, with its place on the upstream",
    },
    "looking": {
        "runtime/discovery.py": "which engines run on this machine; before there is a gateway",
        "runtime/engine_lane.py": "the engine that the gateway itself runs: what it serves",
        "runtime/engine_probe.py": "the same: whether it is well",
    },
    "Opening": {"backends/upstream.py": "with the permit's own question"},
    "Outbound": {
        "runtime/gateway.py": "the gateway's",
        "runtime/engine_probe.py": "the supervisor's, for its own engine",
        "runtime/discovery.py": "before there is a gateway",
    },
}
"""Who may make what leads to a backend, and why."""


@functools.cache
def modules() -> dict[str, ast.Module]:
    paths = sorted(SOURCE.rglob("*.py"))
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def ways_out_of(tree: ast.AST) -> Iterator[str]:
    """What a module has by which it could open a connection."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in CONNECTS:
                yield name
            case ast.Import() | ast.ImportFrom():
                yield from CLIENTS.intersection(_imported(node))


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        yield from names
    elif node.module is not None:
        yield node.module
        yield from (f"{node.module}.{name}" for name in names)


def made_in(tree: ast.AST) -> Iterator[str]:
    """What a module calls, or makes a class of, by the name that it has where it comes from."""
    nodes = list(ast.walk(tree))
    imported = (alias for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names)
    own = {alias.asname: alias.name for alias in imported if alias.asname is not None}
    for node in nodes:
        used = [node.func] if isinstance(node, ast.Call) else node.bases if isinstance(node, ast.ClassDef) else []
        for each in used:
            name = each.id if isinstance(each, ast.Name) else each.attr if isinstance(each, ast.Attribute) else ""
            yield own.get(name, name)


def test_nobody_else_opens_a_connection() -> None:
    assert {path for path, tree in modules().items() if any(ways_out_of(tree))} == WAYS_OUT.keys()


@pytest.mark.parametrize("what", MAKERS)
def test_nobody_else_makes_what_leads_to_a_backend(what: str) -> None:
    assert {path for path, tree in modules().items() if what in made_in(tree)} == MAKERS[what].keys()


def test_the_scans_see_what_they_are_there_for() -> None:
    tree = ast.parse(
        "import http.client\nfrom urllib import request\nfrom lumbre.backends.permit import Permit as Leave\n"
        "class Own(Leave): ...\nloop.create_connection(f)\npermit.Permit(a, b)\n"
    )
    assert sorted(ways_out_of(tree)) == ["create_connection", "http.client", "urllib.request"]
    assert list(made_in(tree)).count("Permit") == 2


Use = Callable[[Outbound, Any], Awaitable[object]]


async def _post(outbound: Outbound, permit: Any, *, reuse: bool) -> object:
    opening = outbound.post(permit, "/chat/completions", b'{"secret": 1}', {}, LIMITS, reuse=reuse)
    try:
        return await opening.header(soon())
    finally:
        opening.close()


def soon() -> float:
    """A moment on the loop's clock, later than anything that should happen."""
    return asyncio.get_running_loop().time() + 5


USES: dict[str, Use] = {
    "post": lambda outbound, permit: _post(outbound, permit, reuse=True),
    "post alone": lambda outbound, permit: _post(outbound, permit, reuse=False),
    "get": lambda outbound, permit: outbound.get(permit, "/models", 5),
    "ask": lambda outbound, permit: outbound.ask(permit, "/tokenize", b"{}", 5),
}


class Listener:
    """A server that counts what reaches it, and answers each request with an empty object."""

    def __init__(self) -> None:
        self.connections = 0
        self.heard = b""
        self.ends = 0
        self._changed = asyncio.Event()

    async def __aenter__(self) -> "Listener":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._changed.set()
        try:
            while data := await reader.read(65_536):
                self.heard += data
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        except ConnectionError:
            pass  # the other end need not be polite
        finally:
            writer.close()
            self.ends += 1
            self._changed.set()

    async def until(self, is_true: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not is_true():
                self._changed.clear()
                await self._changed.wait()


def test_every_public_way_to_send_is_tried_here() -> None:
    ways = {name for name, _ in inspect.getmembers(Outbound, inspect.isfunction) if not name.startswith("_")}
    assert ways == {"post", "get", "ask", "close"}
    for name in ways - {"close"}:
        first = list(inspect.signature(getattr(Outbound, name)).parameters.values())[1]
        assert (first.name, first.annotation) == ("permit", Permit), name


@pytest.mark.parametrize("use", USES)
def test_an_address_is_no_permit(use: str) -> None:
    async def test() -> None:
        async with Listener() as listener:
            outbound = Outbound(user_agent="test")
            address = Address(listener.url)
            for no_permit in (address, listener.url, None, SimpleNamespace(address=address)):
                with pytest.raises(AttributeError):
                    await USES[use](outbound, no_permit)
            await USES[use](outbound, Permit(address, lambda: None))
            await outbound.close()
            await listener.until(lambda: listener.ends == listener.connections)
            assert listener.connections == 1

    asyncio.run(test())


@pytest.mark.parametrize("use", USES)
def test_leave_that_was_never_given_opens_no_connection(use: str) -> None:
    async def test() -> None:
        async with Listener() as listener:
            outbound = Outbound(user_agent="test")
            with pytest.raises(SwitchClosed):
                await USES[use](outbound, Permit(Address(listener.url), _refuse))
            await outbound.close()
            assert listener.connections == 0

    asyncio.run(test())


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("switch", ["express", "B", "global", "gpu-1"])
def test_a_switch_closed_while_the_connection_is_made_lets_no_byte_out(use: str, switch: str, tmp_path: Path) -> None:
    async def test() -> None:
        board = Board(tmp_path / "flow.json", ["gpu-1"], "balanced", lambda: None, utc_now)
        names = covering("B", "express", "gpu-1", ("express",))
        async with Listener() as listener:
            outbound = Outbound(user_agent="test")
            asking = asyncio.ensure_future(
                USES[use](outbound, Permit(Address(listener.url), lambda: board.check(names)))
            )
            await asyncio.sleep(0)  # the request is on its way, and has no connection
            assert listener.connections == 0
            await board.close(switch, None, "test")
            with pytest.raises(SwitchClosed) as told:
                await asking
            assert told.value.switch == switch
            await listener.until(lambda: listener.ends == 1)
            assert (listener.connections, listener.heard) == (1, b"")
            await board.open(switch, None, "test")
            await USES[use](outbound, Permit(Address(listener.url), lambda: board.check(names)))
            assert listener.heard
            await outbound.close()

    asyncio.run(test())


def test_a_connection_that_stands_ready_sends_nothing_either() -> None:
    async def test() -> None:
        async with Listener() as listener:
            outbound = Outbound(user_agent="test")
            address = Address(listener.url)
            opening = outbound.post(Permit(address, lambda: None), "/x", b"{}", {}, LIMITS)
            with await opening.header(soon()) as exchange:
                await exchange.read_whole(100, soon())
            before = listener.heard
            # Asked when the request is made and again when it is sent: refused at either.
            for answers in ([True, False], [False]):
                with pytest.raises(SwitchClosed):
                    outbound.post(Permit(address, _saying(answers)), "/x", b"{}", {}, LIMITS)
            await outbound.close()
            await listener.until(lambda: listener.ends == 1)
            assert (listener.connections, listener.heard) == (1, before)

    asyncio.run(test())


def _saying(answers: list[bool]) -> Callable[[], None]:
    left = iter(answers)
    return lambda: None if next(left) else _refuse()


def _refuse() -> None:
    raise SwitchClosed("the switch A is closed (stopped)", switch="A")
