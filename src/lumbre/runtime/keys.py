"""The gateway's own keys: made once, shown once, kept as hashes. Driver; the door asks it who may come in.

A key is 32 random bytes, so a plain SHA-256 is enough: there is nothing to guess that a slow hash would protect.
"""

import hashlib
import hmac
import re
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
        self._known: list[str] | None = None

    def __bool__(self) -> bool:
        """Whether there are any.

        Raises:
            OperatorError: the file cannot be read, so nobody can tell who may come in.
        """
        return bool(self._hashes)

    def make(self) -> str:
        """Make the key anew; those before it are void. It is kept as a hash only, so show it now."""
        key = PREFIX + secrets.token_urlsafe(32)
        hashes = [_hash(key)]
        write_whole(self._path, {"sha256": hashes})
        self._known = hashes
        return key

    def admits(self, key: str) -> bool:
        """Whether this is one of them."""
        mine = _hash(key)
        return any(hmac.compare_digest(mine, each) for each in self._hashes)

    @property
    def _hashes(self) -> list[str]:
        # Read when they are asked for: making a new key must mend a file that cannot be read.
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> list[str]:
        try:
            document = orjson.loads(self._path.read_bytes())
            hashes = document["sha256"]
            if not isinstance(hashes, list) or not hashes or not all(map(_is_hash, hashes)):
                raise TypeError("it holds no list of hashes")
            return hashes
        except FileNotFoundError:
            return []
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
            message = f"{self._path} cannot be read ({error}); make a new key with `lumbre up --new-key`"
            raise OperatorError(message) from error


def _is_hash(each: object) -> bool:
    return isinstance(each, str) and re.fullmatch(r"[0-9a-f]{64}", each) is not None


def digest(key: str) -> str:
    """A key as `[tier_c] direct` names it; empty for none."""
    return f"sha256:{_hash(key)}" if key else ""


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
