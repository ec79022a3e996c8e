"""What a client's connection may cost: how long each part may take, how far a client may run ahead, who counts as gone.
In one process, over loopback, with bounds short enough for a test, on both event loops.
"""

import asyncio

import pytest

from lumbre.api.bounds import Bounds
from raw_http import get, post
from served_connection import CALM, Client, run


def test_a_connection_that_says_nothing_is_closed() -> None:
    async def test(client: Client) -> None:
        assert await client.reader.read() == b""

    run(test)


@pytest.mark.parametrize("drips", [False, True], ids=["stops", "drips"])
@pytest.mark.parametrize(
    ("before", "begun", "more", "code"),
    [
        (b"", b"GET /size/1 HTTP/1.1\r\nX: ", b"a", b"head_timeout"),
        (b"", b"\r\n", b"\r\n", b"head_timeout"),
        (b"", post(b"x" * 1_000, "/size/1")[:-999], b"x", b"body_timeout"),
        (get("/size/1"), b"GET /size/1 HTTP/1.1\r\nX: ", b"a", b"head_timeout"),
        (get("/size/1"), post(b"x" * 1_000, "/size/1")[:-999], b"x", b"body_timeout"),
    ],
    ids=["head", "empty lines", "body", "second head", "second body"],
)
def test_half_a_request_is_a_408_however_slowly_it_goes_on(
    before: bytes, begun: bytes, more: bytes, code: bytes, drips: bool
) -> None:
    async def drip(client: Client) -> None:
        while drips:
            await asyncio.sleep(0.02)
            client.send(more)

    async def test(client: Client) -> None:
        if before:
            client.send(before)
            await client.read()
        client.send(begun)
        dripping = asyncio.create_task(drip(client))
        status, _, body = await client.read_last()
        assert (status, body) == (408, code)
        dripping.cancel()

    run(test)


def test_a_connection_may_rest_between_two_requests_but_not_for_ever() -> None:
    async def test(client: Client) -> None:
        client.send(get("/size/1"))
        assert (await client.read())[0] == 200
        client.send(b"\r\n")
        assert await client.reader.read() == b""

    run(test)


def test_whoever_goes_on_sending_after_a_refusal_is_cut_off() -> None:
    async def test(client: Client) -> None:
        with pytest.raises(ConnectionError):
            await client.flood(b"no http\r\n" * 5_000)

    run(test)


@pytest.mark.parametrize("head", [b"", b"Connection: close\r\n"], ids=["stays", "closes"])
@pytest.mark.parametrize("path", ["/size/50000000", "/impatient"])
def test_a_reply_does_not_wait_for_ever_for_a_reader(path: str, head: bytes) -> None:
    async def test(client: Client) -> None:
        client.send(get(path, head=head))
        await client.keeper.until(lambda: bool(client.keeper.begun))
        await client.keeper.until(lambda: not client.keeper.connections)

    run(test)


def test_a_reply_that_nobody_waits_for_any_more_is_cut_at_once() -> None:
    async def test(client: Client) -> None:
        client.send(get("/impatient"))
        await client.keeper.until(lambda: bool(client.keeper.begun))
        await client.keeper.until(lambda: not client.keeper.connections)

    run(test, CALM)


@pytest.mark.parametrize("path", ["/half", "/fail"])
def test_a_reply_that_is_not_finished_is_cut(path: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: Client) -> None:
        client.send(get(path))
        assert await client.is_cut()

    run(test)
    assert ("not here" in caplog.text) == (path == "/fail")


def test_what_was_sent_ahead_is_answered_in_its_order() -> None:
    async def test(client: Client) -> None:
        client.send(get("/wait") + b"".join(get(f"/size/{number}") + get("/refused") for number in range(1, 50)))
        await client.keeper.until(lambda: client.keeper.begun == ["/wait"])
        client.keeper.released.set()
        assert (await client.read())[2] == b"waited"
        for number in range(1, 50):
            assert (await client.read())[2] == b"x" * number
            assert (await client.read())[0] == 403

    run(test, CALM)


def test_thousands_of_refusals_may_be_sent_ahead() -> None:
    async def test(client: Client) -> None:
        count = 1_500
        client.send(get("/wait") + get("/refused") * count)
        await client.keeper.until(lambda: bool(client.keeper.begun))
        client.keeper.released.set()
        assert [(await client.read())[0] for _ in range(count + 1)] == [200] + [403] * count

    run(test, Bounds())


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("path", ["/wait", "/refused"])
@pytest.mark.parametrize("ahead", [get("/size/1") * 500, post(b"x" * 20_000, "/size/1"), b"no http\r\n\r\n"])
def test_whoever_is_too_far_ahead_gets_one_answer_whole_and_no_other(ahead: bytes, path: str, at_once: bool) -> None:
    async def test(client: Client) -> None:
        keeper = client.keeper
        client.send(get("/wait") + (ahead if at_once else b""))
        await keeper.until(lambda: bool(keeper.begun))
        client.send(b"" if at_once else ahead)
        (connection,) = keeper.connections
        await keeper.until(lambda: connection.closes)
        client.send(get(path))
        keeper.released.set()
        status, _, body = await client.read_last()
        assert (status, body) == (200, b"waited")
        assert keeper.begun == ["/wait"]

    run(test, CALM)


def test_how_far_ahead_is_counted_from_the_answer_in_hand() -> None:
    async def test(client: Client) -> None:
        for number in range(40):
            client.keeper.released.clear()
            client.send(get("/wait") + get(f"/size/{number}", head=b"X: %b\r\n" % (b"x" * 9_000)))
            await client.keeper.until(lambda: len(client.keeper.ended) < len(client.keeper.begun))
            client.keeper.released.set()
            assert (await client.read())[2] == b"waited"
            assert len((await client.read())[2]) == number

    run(test, CALM)


def test_a_client_that_sends_and_sends_and_never_reads_is_answered_no_further() -> None:
    async def test(client: Client) -> None:
        keeper = client.keeper
        with pytest.raises(ConnectionError):
            await client.flood(get("/size/100000"))
        assert len(keeper.begun) < 200
        await keeper.until(lambda: not keeper.connections)

    run(test)


async def stalled(client: Client) -> int:
    """Ask for more than the way to the client holds, and read nothing; how many were answered when it stood still."""
    client.send(get("/size/100000") * 600)
    begun = client.keeper.begun
    (connection,) = client.keeper.connections
    await client.keeper.until(lambda: connection.congested)
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert connection.congested
    assert len(begun) < 300
    return len(begun)


def test_a_client_that_reads_late_gets_everything_that_it_asked_for() -> None:
    async def test(client: Client) -> None:
        await stalled(client)
        for _ in range(600):
            assert len((await client.read())[2]) == 100_000

    run(test, Bounds())


@pytest.mark.parametrize("how", ["half", "no http"])
def test_a_client_that_ends_it_before_it_reads_gets_what_was_answered_and_no_more(how: str) -> None:
    async def test(client: Client) -> None:
        answered = await stalled(client)
        if how == "half":
            client.writer.write_eof()
        else:
            client.send(b"no http\r\n\r\n")
        (connection,) = client.keeper.connections
        await client.keeper.until(lambda: connection.closes)
        for _ in range(answered):
            assert (await client.read())[0] == 200
        assert await client.reader.read() == b""
        assert len(client.keeper.begun) == answered

    run(test, Bounds())


@pytest.mark.parametrize(
    ("begun", "code"), [(b"GET /size/1 HT", b"head_timeout"), (post(b"xx", "/size/1")[:-1], b"body_timeout")]
)
def test_half_a_request_behind_one_in_hand_is_a_408_too(begun: bytes, code: bytes) -> None:
    async def test(client: Client) -> None:
        client.send(get("/wait") + begun)
        await client.keeper.until(lambda: bool(client.keeper.begun))
        client.keeper.released.set()
        assert (await client.read())[2] == b"waited"
        status, _, body = await client.read_last()
        assert (status, body) == (408, code)

    run(test)


def test_a_large_request_behind_a_whole_answer_waits_on_the_way() -> None:
    async def test(client: Client) -> None:
        client.send(get("/linger"))
        assert (await client.read())[2] == b"answered"
        body = b"y" * 3_000_000
        client.send(post(body, "/size/1"))
        await asyncio.sleep(0.05)
        client.keeper.released.set()
        assert (await client.read())[2] == body

    run(test, CALM)


def test_an_expectation_is_met_when_its_body_is_wanted() -> None:
    async def test(client: Client) -> None:
        request = post(b"body", "/size/1", b"Expect: 100-continue\r\n")
        client.send(request[:-4])
        assert (await client.read())[0] == 100
        client.send(b"body" + get("/wait") + request[:-4])
        assert (await client.read())[2] == b"body"
        await client.keeper.until(lambda: len(client.keeper.begun) == 2)
        client.keeper.released.set()
        assert (await client.read())[2] == b"waited"
        assert (await client.read())[0] == 100
        client.send(b"body" + request)
        replies = [await client.read() for _ in range(2)]
        if replies[1][0] == 100:
            replies[1] = await client.read()
        assert [reply[2] for reply in replies] == [b"body", b"body"]

    run(test, CALM)


@pytest.mark.parametrize("path", ["/size/1", "/refused"])
def test_no_expectation_is_met_of_an_old_client_or_a_refused_one(path: str) -> None:
    async def test(client: Client) -> None:
        request = post(b"body", path, b"Expect: 100-continue\r\n")
        if path == "/size/1":
            client.send(request.replace(b"HTTP/1.1", b"HTTP/1.0"))
            assert (await client.read_last())[2] == b"body"
        else:
            client.send(request[:-4])
            assert (await client.read_last())[0] == 403

    run(test, CALM)


@pytest.mark.parametrize("how", ["half", "whole", "reset"])
def test_a_client_that_stops_sending_while_it_waits_has_left(how: str) -> None:
    async def test(client: Client) -> None:
        keeper = client.keeper
        client.send(get("/wait") + get("/size/1"))
        await keeper.until(lambda: bool(keeper.begun))
        match how:
            case "half":
                client.writer.write_eof()
            case "whole":
                client.writer.close()
            case _:
                client.writer.transport.abort()
        await keeper.until(lambda: keeper.ended == ["/wait"] and not keeper.connections)
        assert keeper.begun == ["/wait"]

    run(test, CALM)


@pytest.mark.parametrize("how", ["half", "reset"])
def test_a_client_that_leaves_in_the_middle_of_what_it_does_not_read_is_seen_leaving(how: str) -> None:
    async def test(client: Client) -> None:
        keeper = client.keeper
        client.send(get("/pieces"))
        await keeper.until(lambda: any(each.congested for each in keeper.connections))
        if how == "half":
            client.writer.write_eof()
        else:
            client.writer.transport.abort()
        await keeper.until(lambda: keeper.ended == ["/pieces"] and not keeper.connections)

    run(test, CALM)


def test_a_client_that_stops_sending_after_its_answer_gets_the_rest_of_it() -> None:
    async def test(client: Client) -> None:
        client.send(get("/size/20000000"))
        await client.keeper.until(lambda: bool(client.keeper.begun))
        client.writer.write_eof()
        assert len((await client.read())[2]) == 20_000_000
        assert await client.reader.read() == b""

    run(test, CALM)


def test_a_connection_that_is_to_close_finishes_what_is_in_hand() -> None:
    async def test(client: Client) -> None:
        keeper = client.keeper
        client.send(get("/wait") + get("/size/1"))
        await keeper.until(lambda: bool(keeper.begun))
        (connection,) = keeper.connections
        connection.close()
        keeper.released.set()
        assert (await client.read_last())[2] == b"waited"
        assert keeper.begun == ["/wait"]

    async def idle(client: Client) -> None:
        client.send(get("/size/1"))
        await client.read()
        (connection,) = client.keeper.connections
        connection.close()
        assert await client.reader.read() == b""

    run(test, CALM)
    run(idle, CALM)
