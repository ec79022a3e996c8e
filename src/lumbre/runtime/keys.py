"""The gateway's own keys: made once, shown once, kept as hashes. Driver; the door asks it who may come in.

A key is 32 random bytes, so a plain SHA-256 is enough: there is nothing to guess that a slow hash would protect.
"""

import hashlib
import hmac
import secrets
from pathlib import Path

import orjson

from lumbre.core.errors import OperatorError
from lumbre.runtime.state_dir import write_whole

PREFIX = "lumbre-"


class Keys:
    """The keys of one state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "keys.json"
        self._hashes = self._read()

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def make(self) -> str:
        """Make the key anew; those before it are void. It is kept as a hash only, so show it now."""
        key = PREFIX + secrets.token_urlsafe(32)
        self._hashes = [_hash(key)]
        write_whole(self._path, {"sha256": self._hashes})
        return key

    def admits(self, key: str) -> bool:
        """Whether this is one of them."""
        mine = _hash(key)
        return any(hmac.compare_digest(mine, each) for each in self._hashes)

    def _read(self) -> list[str]:
        try:
            document = orjson.loads(self._path.read_bytes())
            return [str(each) for each in document["sha256"]]
        except FileNotFoundError:
            return []
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
            message = f"{self._path} cannot be read ({error}); make a new key with `lumbre up --new-key`"
            raise OperatorError(message) from error


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
