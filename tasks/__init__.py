"""The task suites. Each family registers its own tasks."""

from embodied.env.registry import Registry, Suite
from tasks import grasping, locomotion, manipulation, swarm


def register(registry: Registry) -> None:
    for family in (locomotion, manipulation, swarm, grasping):
        family.register(registry)
        name = family.__name__.rpartition(".")[2]
        tasks = tuple(task for task in registry if task.startswith(f"{name}/"))
        registry.register_suite(Suite(name, f"Every task of {name}.", tasks))
