"""Models on disk: what a name means, which files are here, how the missing ones are fetched and checked."""

from lumbre.runtime.models.fetching import Outside, Patience
from lumbre.runtime.models.names import HubRef, ModelRef, PathRef, RegistryRef, alias_of, parse
from lumbre.runtime.models.progress import Phase, Progress, Report
from lumbre.runtime.models.registry import REGISTRY, RegistryModel, Wheel
from lumbre.runtime.models.store import ModelEntry, ModelStore

__all__ = [
    "REGISTRY",
    "HubRef",
    "ModelEntry",
    "ModelRef",
    "ModelStore",
    "Outside",
    "PathRef",
    "Patience",
    "Phase",
    "Progress",
    "RegistryModel",
    "RegistryRef",
    "Report",
    "Wheel",
    "alias_of",
    "parse",
]
