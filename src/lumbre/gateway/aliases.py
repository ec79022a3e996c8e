"""What a model's name stands for: itself, or what `[models.alias]` says of it. Pure; the dispatcher asks, and hands the
answer to the decision.

Clients insist on names that nobody here serves (`gpt-4o`, `claude-…`). A pattern maps such a name to a model, to a
tier, or to a model for each tier. An alias is looked up once: what it stands for is no alias again.
"""

import fnmatch
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lumbre.core.quoting import quoted
from lumbre.gateway.hints import MODEL_TIERS

Target = str | Mapping[str, str]
"""A model or one of `hints.MODEL_TIERS`; or a model for each tier, `auto` being the tier's own choice."""

TIERS = ("A", "B", "C")
"""The keys that a table of models may have."""

_WILD = re.compile(r"\*|\?|\[!?+\]?+[^]]*\]")
"""What `fnmatch` takes for wildcards."""


@dataclass(frozen=True)
class Asked:
    """What a request asks for.

    Attributes:
        name: as the caller wrote it.
        model: the name to decide by: a model, or one of `hints.MODEL_TIERS`. The caller's own where a table decides.
        by_tier: a model for each tier that may take the request; empty unless the alias has a table.
        alias: the pattern that matched; None where the name stands for itself.
    """

    name: str
    model: str
    by_tier: Mapping[str, str] = field(default_factory=dict)
    alias: str | None = None

    @property
    def told(self) -> str:
        """The name for a message, with the alias that it came through."""
        if self.alias is None:
            return f"the model {quoted(self.name)}"
        return f"the model {quoted(self.name)} ([models.alias] {quoted(self.alias)})"


class Aliases:
    """The table of the settings.

    Args:
        table: pattern to target, as `[models.alias]` has it: `{"gpt-*": "auto", "big": {"A": "x", "C": "y"}}`.
    """

    def __init__(self, table: Mapping[str, Target]) -> None:
        self._table = dict(table)
        wild = sorted((pattern for pattern in table if _WILD.search(pattern)), key=_rank)
        self._wild = [(pattern, re.compile(fnmatch.translate(pattern))) for pattern in wild]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that stand in the table as they are, without wildcards: those that can be listed."""
        wild = {pattern for pattern, _ in self._wild}
        return tuple(name for name in self._table if name not in wild)

    def resolve(self, model: str, served: Collection[str]) -> Asked:
        """Say what a name stands for.

        A served model and the words of `hints.MODEL_TIERS` stand for themselves, whatever the table says. Then the
        name itself as a key, then the wildcards: the one with the most literal characters, the first by text order
        among equals. `*`, `?` and `[…]` mean what they mean in `fnmatch.fnmatchcase`.

        Args:
            model: the name that the request has.
            served: the models that can be had by name.
        """
        if model in MODEL_TIERS or model in served:
            return Asked(model, model)
        pattern = self._pattern(model)
        if pattern is None:
            return Asked(model, model)
        target = self._table[pattern]
        if isinstance(target, str):
            return Asked(model, target, alias=pattern)
        return Asked(model, model, by_tier=target, alias=pattern)

    def _pattern(self, model: str) -> str | None:
        if model in self._table:
            return model
        return next((pattern for pattern, matcher in self._wild if matcher.match(model)), None)


def _rank(pattern: str) -> tuple[int, str]:
    return -len(_WILD.sub("", pattern)), pattern
