"""Lumbre: a local-first inference gateway."""

__version__ = "0.1.0"
