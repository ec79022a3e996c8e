"""What a fetch tells while it runs. Pure; `store` makes these and the shell door draws them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Phase: TypeAlias = Literal["wait", "download", "unpack", "verify", "retry"]
"""`wait`: another process fetches the same model; `retry`: it broke and starts again after a pause."""


@dataclass(frozen=True)
class Progress:
    """How far one model is.

    Attributes:
        done_bytes: of this phase, 0 to `total_bytes`.
        total_bytes: of this phase; 0 while nobody knows.
        note: for `retry`, what went wrong.
    """

    name: str
    phase: Phase
    done_bytes: int = 0
    total_bytes: int = 0
    note: str = ""


Report: TypeAlias = Callable[[Progress], None]
"""Called several times a second while a transfer runs; an exception that it raises ends the fetch cleanly."""


def silent(_: Progress) -> None:
    """The report of those who do not want one."""
