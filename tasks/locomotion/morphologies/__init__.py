"""Families of bodies that differ in their limbs, and the task they share: reach a target in any direction."""

from embodied.registry import Registry, TaskEntry
from tasks.locomotion.morphologies.families import FAMILIES, task_name


def register(registry: Registry) -> None:
    """Register a reach task for every variant of every family; all are variants of the one with every limb."""
    for family in FAMILIES.values():
        full = task_name(family.name, family.full)
        for variant in family.variants:
            name = task_name(family.name, variant)
            parts = variant.partition("_")[0]
            role = " (held out from training)" if variant in family.held_out else ""
            registry.register(
                TaskEntry(
                    name=name,
                    target=f"tasks.locomotion.morphologies.reach:{class_name(family.name, variant)}",
                    summary=f"A {family.name} of {parts} parts reaches targets in any direction{role}.",
                    engines=("mujoco", "mjx"),
                    training="tasks.locomotion.morphologies.training:REACH",
                    variant_of=None if name == full else full,
                )
            )


def class_name(family: str, variant: str) -> str:
    """The variant's class in `reach`: `ReachWalker6RightFoot`."""
    return "Reach" + "".join(word.capitalize() for word in (family, *variant.split("_")))
