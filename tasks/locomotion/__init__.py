"""Legged robots."""

from embodied.registry import Registry


def register(registry: Registry) -> None:
    """Register the family's tasks."""
    del registry
