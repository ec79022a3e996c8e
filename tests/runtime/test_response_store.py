"""The kept responses: bounded, chained, private, whole after a kill, and clear about a file that cannot be used."""

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.core.errors import CallerError
from lumbre.runtime.response_store import ResponseStore, StoreBroken


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "responses.db"


def opened(path: Path, clock: Clock | None = None, **bounds: Any) -> ResponseStore:
    limits = {"keep": 10, "keep_bytes": 100_000, "keep_s": 60.0, **bounds}
    return ResponseStore(path, now_s=clock or Clock(), **limits)


def response(name: str, previous: str | None = None, text: str = "") -> dict[str, Any]:
    part = {"type": "output_text", "text": text or name}
    message = {"type": "message", "id": f"msg_{name}_0", "role": "assistant", "content": [part]}
    before = None if previous is None else f"resp_{previous}"
    return {"id": f"resp_{name}", "previous_response_id": before, "output": [message]}


def asked(name: str) -> list[dict[str, Any]]:
    return [{"type": "message", "id": f"msg_{name}_in0", "role": "user", "content": f"ask {name}"}]


def put(store: ResponseStore, name: str, previous: str | None = None, text: str = "") -> bool:
    return store.put(f"resp_{name}", response(name, previous, text), asked(name))


def kept(store: ResponseStore, names: str) -> str:
    return "".join(name for name in names if store.get(f"resp_{name}") is not None)


def whole_folder(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_what_was_put_is_there_also_after_a_restart(path: Path) -> None:
    store = opened(path)
    assert put(store, "a") is True
    store.close()
    for each in (store, opened(path)):
        assert each.get("resp_a") == response("a")
        assert each.input_items("resp_a") == asked("a")
    assert store.get("resp_b") is None
    assert store.input_items("resp_b") is None


def test_a_history_is_the_whole_chain_with_the_oldest_first(path: Path) -> None:
    store = opened(path)
    for name, previous in (("a", None), ("b", "a"), ("x", "a"), ("c", "b")):
        put(store, name, previous)
    ids = [item["id"] for item in store.history("resp_c")]
    assert ids == ["msg_a_in0", "msg_a_0", "msg_b_in0", "msg_b_0", "msg_c_in0", "msg_c_0"]


def test_items_are_found_by_their_own_ids(path: Path) -> None:
    store = opened(path)
    put(store, "a")
    put(store, "b_c")
    wanted = ["msg_a_0", "msg_a_in0", "msg_b_c_0", "msg_a_9", "msg_z_0", "", "msg", "x_y", "_", "__"]
    assert set(store.items(wanted)) == {"msg_a_0", "msg_a_in0", "msg_b_c_0"}
    assert store.items(["msg_a_0"])["msg_a_0"] == response("a")["output"][0]


def test_the_least_recent_goes_when_there_are_too_many(path: Path, clock: Clock) -> None:
    store = opened(path, clock, keep=3)
    for name in "abcde":
        clock.now_s += 1
        put(store, name)
    assert kept(store, "abcde") == "cde"


def test_a_conversation_that_goes_on_stays_whole(path: Path, clock: Clock) -> None:
    store = opened(path, clock, keep=4)
    for name, previous in (("a", None), ("x", None), ("y", None), ("b", "a"), ("z", None), ("c", "b")):
        clock.now_s += 1
        put(store, name, previous)
    assert kept(store, "abcxyz") == "abcz"
    assert len(store.history("resp_c")) == 6


def test_the_least_recent_goes_when_there_are_too_many_bytes(path: Path, clock: Clock) -> None:
    store = opened(path, clock, keep_bytes=3500)
    for name in "abcd":
        clock.now_s += 1
        put(store, name, text="x" * 800)
    assert kept(store, "abcd") == "bcd"


def test_what_is_larger_than_everything_may_be_is_not_kept_and_costs_nothing_else(path: Path) -> None:
    store = opened(path, keep_bytes=3000)
    put(store, "a")
    assert put(store, "b", text="x" * 3000) is False
    assert kept(store, "ab") == "a"


def test_what_is_too_old_is_gone_before_anything_deletes_it(path: Path, clock: Clock) -> None:
    store = opened(path, clock, keep_s=10)
    put(store, "a")
    clock.now_s += 10
    assert kept(store, "a") == ""
    assert store.items(["msg_a_0"]) == {}
    assert store.delete("resp_a") is False
    with pytest.raises(CallerError):
        store.history("resp_a")
    put(store, "b")
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT id FROM responses").fetchall() == [("resp_b",)]
    database.close()


def test_going_on_with_a_conversation_makes_it_young_again(path: Path, clock: Clock) -> None:
    store = opened(path, clock, keep_s=10)
    put(store, "a")
    clock.now_s += 9
    put(store, "b", "a")
    clock.now_s += 9
    assert kept(store, "ab") == "ab"


def test_deleting_ends_the_conversations_that_go_on_from_it(path: Path) -> None:
    store = opened(path)
    put(store, "a")
    put(store, "b", "a")
    assert store.delete("resp_a") is True
    assert store.delete("resp_a") is False
    assert store.get("resp_b") is not None
    with pytest.raises(CallerError, match="not kept any more") as caught:
        store.history("resp_b")
    assert (caught.value.status, caught.value.param) == (400, "previous_response_id")
    assert caught.value.code == "previous_response_not_found"


def test_what_was_deleted_stands_in_no_file_any_more(path: Path) -> None:
    store = opened(path)
    secret = "the combination is 4711"
    put(store, "a", text=secret)
    assert secret.encode() in whole_folder(path)
    store.delete("resp_a")
    assert secret.encode() not in whole_folder(path)


@pytest.mark.parametrize(
    "name", ["resp_x", "", "x" * 500, "resp_a' OR '1'='1", "resp_\x00", "../../etc", "\ud800", "é"]
)
def test_an_id_from_outside_is_only_ever_looked_up(path: Path, name: str) -> None:
    store = opened(path)
    put(store, "a")
    assert store.get(name) is None
    assert store.delete(name) is False
    assert store.items([name]) == {}
    with pytest.raises(CallerError, match="no response") as caught:
        store.history(name)
    assert caught.value.code == "previous_response_not_found"
    assert kept(store, "a") == "a"


def test_the_files_are_for_their_owner_only(path: Path) -> None:
    path.touch(0o644)
    store = opened(path)
    put(store, "a")
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes.keys() >= {"responses.db", "responses.db-wal"}
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 100, b"SQLite format 3\0" * 80])
def test_a_file_that_is_no_database_is_told_so_and_can_be_mended_without_a_restart(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    store = opened(path)
    for act in (store.check, lambda: put(store, "a"), lambda: store.get("resp_a"), lambda: store.history("resp_a")):
        with pytest.raises(StoreBroken, match=r"responses\.db") as caught:
            act()
        assert (caught.value.status, caught.value.code) == (503, "response_store_broken")
    assert path.read_bytes() == content
    path.unlink()
    store.check()
    assert put(store, "a") is True


def test_a_file_of_another_version_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreBroken, match="another version"):
        opened(path).check()


def test_a_folder_in_the_place_of_the_file_is_told_so(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreBroken):
        opened(path).check()


@pytest.mark.parametrize("column", ["response", "items"])
@pytest.mark.parametrize("content", [b"{", b"1"])
def test_a_row_that_is_no_json_is_told_so(path: Path, column: str, content: bytes) -> None:
    store = opened(path)
    put(store, "a")
    store.close()
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE responses SET {column} = ?", (content,))  # noqa: S608
    database.close()
    with pytest.raises(StoreBroken):
        store.history("resp_a")


def test_a_chain_in_a_circle_ends(path: Path) -> None:
    store = opened(path)
    put(store, "a", "b")
    put(store, "b", "a")
    with pytest.raises(CallerError):
        store.history("resp_b")


_KILLED = """
import os, signal, sys
from pathlib import Path
from lumbre.runtime.response_store import ResponseStore
store = ResponseStore(Path(sys.argv[1]), keep=100, keep_bytes=10**6, keep_s=1e9, now_s=lambda: 1.0)
for n in range(50):
    store.put(f"resp_{n}", {"previous_response_id": None, "output": [], "n": n}, [])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_gateway_that_is_killed_has_what_it_had_kept(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    store = opened(path, keep=100, keep_s=1e9)
    assert [(store.get(f"resp_{n}") or {}).get("n") for n in range(50)] == list(range(50))


_FULL = """
import resource, sys
from pathlib import Path
from lumbre.runtime.response_store import ResponseStore, StoreBroken
store = ResponseStore(Path(sys.argv[1]), keep=100, keep_bytes=10**7, keep_s=1e9, now_s=lambda: 1.0)
answer = lambda text: {"previous_response_id": None, "output": [], "text": text}
store.put("resp_a", answer("a"), [])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    store.put("resp_b", answer("b" * 1_000_000), [])
except StoreBroken as error:
    print(error.code)
print(store.get("resp_a")["text"], store.get("resp_b"))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(store.put("resp_b", answer("b" * 1_000_000), []), len(store.get("resp_b")["text"]))
"""


def test_a_full_disk_is_told_so_and_what_was_kept_stays(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _FULL, str(path)], check=True, timeout=60, capture_output=True)
    assert done.stdout.decode().splitlines() == ["response_store_broken", "a None", "True 1000000"]


def test_several_threads_may_ask_at_once(path: Path) -> None:
    store = opened(path, keep=1000)

    def put_some(number: int) -> None:
        for each in range(20):
            put(store, f"{number}_{each}")

    threads = [threading.Thread(target=put_some, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert all(store.get(f"resp_{n}_{i}") for n in range(4) for i in range(20))


acts = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), st.sampled_from([None, *"abcdef"]), st.integers(1, 900)),
        st.tuples(st.just("delete"), st.sampled_from("abcdef")),
        st.tuples(st.just("wait"), st.integers(1, 30)),
    ),
    max_size=15,
)


@given(acts)
def test_the_bounds_hold_whatever_is_done(tmp_path_factory: pytest.TempPathFactory, done: list[Any]) -> None:
    path, clock = tmp_path_factory.mktemp("store") / "responses.db", Clock()
    store = opened(path, clock, keep=3, keep_bytes=2000, keep_s=40)
    for act in done:
        match act:
            case ("put", name, previous, size):
                assert put(store, name, previous, "x" * size) is (store.get(f"resp_{name}") is not None)
            case ("delete", name):
                store.delete(f"resp_{name}")
                assert store.get(f"resp_{name}") is None
            case ("wait", seconds):
                clock.now_s += seconds
        rows = [row for name in "abcdef" if (row := store.get(f"resp_{name}")) is not None]
        assert len(rows) <= 3
        inputs = [store.input_items(row["id"]) for row in rows]
        assert sum(len(orjson.dumps(each)) for each in (*rows, *inputs)) <= 2000
    store.close()
