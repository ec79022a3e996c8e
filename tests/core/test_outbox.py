"""What leaves when, and in which order, against a plain list of all that was written."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.core.outbox import Outbox, Outlet


class Wire:
    """A transport that keeps what it was given, and how."""

    def __init__(self, *, closing: bool = False) -> None:
        self.writes: list[bytes] = []
        self.closing = closing

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.closing


class Broken(Wire):
    """One that fails."""

    def write(self, data: bytes) -> None:
        raise OSError("no more")


class Turn:
    """A loop's turn: what is called soon is called at its end."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.alone = False
        self.outbox = Outbox(self.calls.append, lambda: self.alone)

    def end(self) -> None:
        calls = self.calls[:]
        self.calls.clear()
        for call in calls:
            call()


def test_the_writes_of_a_turn_leave_at_its_end_one_for_each_connection() -> None:
    turn, first, second = Turn(), Wire(), Wire()
    one, two = Outlet(turn.outbox, first), Outlet(turn.outbox, second)
    one.write(b"a")
    two.write(b"x")
    one.write(b"b")
    assert (first.writes, second.writes, one.held) == ([], [], 2)
    turn.end()
    assert (first.writes, second.writes, one.held) == ([b"ab"], [b"x"], 0)
    turn.end()
    assert (first.writes, second.writes) == ([b"ab"], [b"x"])


def test_a_connection_that_is_busy_alone_sends_at_once() -> None:
    turn, wire = Turn(), Wire()
    turn.alone = True
    outlet = Outlet(turn.outbox, wire)
    outlet.write(b"a")
    assert (wire.writes, turn.calls) == ([b"a"], [])


def test_what_is_large_does_not_wait_and_is_not_put_together() -> None:
    turn, wire = Turn(), Wire()
    outlet = Outlet(turn.outbox, wire)
    large = bytes(70_000)
    outlet.write(b"head")
    outlet.write(large)
    assert wire.writes == [b"head", large]
    assert wire.writes[1] is large
    turn.end()
    assert len(wire.writes) == 2


@pytest.mark.parametrize("end", ["dropped", "closing"])
def test_a_connection_that_is_gone_sends_nothing(end: str) -> None:
    turn, wire = Turn(), Wire()
    outlet = Outlet(turn.outbox, wire)
    outlet.write(b"a")
    if end == "dropped":
        outlet.drop()
    else:
        wire.closing = True
    turn.end()
    outlet.flush()
    assert (wire.writes, outlet.held) == ([], 0 if end == "dropped" else 1)


def test_a_write_that_fails_does_not_keep_the_others_back() -> None:
    turn, broken, wire = Turn(), Broken(), Wire()
    Outlet(turn.outbox, broken).write(b"a")
    Outlet(turn.outbox, wire).write(b"b")
    with pytest.raises(OSError, match="no more"):
        turn.end()
    turn.end()
    assert wire.writes == [b"b"]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.binary(min_size=1, max_size=4) | st.just(bytes(40_000)))
        | st.sampled_from(["end", "alone", "together"])
        | st.tuples(st.integers(0, 2), st.none()),
        max_size=30,
    )
)
def test_nothing_is_lost_or_changes_places(acts: list[str | tuple[int, bytes | None]]) -> None:
    turn = Turn()
    wires = [Wire() for _ in range(3)]
    outlets = [Outlet(turn.outbox, wire) for wire in wires]
    written = [b"", b"", b""]
    for act in acts:
        if isinstance(act, str):
            if act == "end":
                turn.end()
            else:
                turn.alone = act == "alone"
            continue
        which, data = act
        if data is None:
            outlets[which].flush()
        else:
            outlets[which].write(data)
            written[which] += data
        sent = [b"".join(wire.writes) for wire in wires]
        assert [len(all_of_it) for all_of_it in written] == [
            len(part) + outlet.held for part, outlet in zip(sent, outlets, strict=True)
        ]
        assert max(outlet.held for outlet in outlets) <= 65_536
    turn.end()
    assert [b"".join(wire.writes) for wire in wires] == written
