"""Keys are kept as hashes; a file of them that cannot be read lets nobody in, and a new key mends it."""

from pathlib import Path

import pytest

from lumbre.core.errors import OperatorError
from lumbre.runtime.keys import Keys

BROKEN = [b"", b"{", b"[]", b'{"sha256":"ab"}', b'{"sha256":[1]}', b'{"sha256":["\xc3\xa9"]}', b'{"sha256":[]}']


def test_a_key_admits_its_bearer_also_after_a_restart(tmp_path: Path) -> None:
    key = Keys(tmp_path).make()
    keys = Keys(tmp_path)
    assert keys
    assert keys.admits(key)
    assert not keys.admits(key + "x")
    assert not keys.admits("clé")
    assert key.encode() not in (tmp_path / "keys.json").read_bytes()


@pytest.mark.parametrize("content", BROKEN)
def test_a_file_that_cannot_be_read_lets_nobody_in(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "keys.json").write_bytes(content)
    with pytest.raises(OperatorError, match="--new-key"):
        bool(Keys(tmp_path))
    with pytest.raises(OperatorError, match="--new-key"):
        Keys(tmp_path).admits("")


@pytest.mark.parametrize("content", BROKEN)
def test_a_new_key_mends_a_file_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "keys.json").write_bytes(content)
    key = Keys(tmp_path).make()
    assert Keys(tmp_path).admits(key)
