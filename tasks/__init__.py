"""The task suites. Each family registers its own tasks."""

from embodied.registry import Registry
from tasks import locomotion, manipulation, swarm


def register(registry: Registry) -> None:
    """Register every task of every family."""
    for family in (locomotion, manipulation, swarm):
        family.register(registry)
