"""Families of bodies that differ in their limbs, and the task they share: reach a target in any direction."""

from embodied.env.registry import Registry, Suite, TaskEntry
from tasks.locomotion.morphologies.families import FAMILIES, task_name


def register(registry: Registry) -> None:
    """Register a reach task for every variant of every family, and each family as a suite with its published split.

    All variants are variants of the one with every limb. One policy runs on all of a family: it observes the body
    parts, not the variant.
    """
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
                    engines=("mujoco", "mjx", "brax"),
                    training="tasks.locomotion.morphologies.training:REACH",
                    variant_of=None if name == full else full,
                    experimental=True,
                )
            )

        train, held_out = (
            tuple(task_name(family.name, variant) for variant in part) for part in (family.train, family.held_out)
        )
        registry.register_suite(
            Suite(
                name=f"reach-{family.name}",
                summary=f"{len(train)} bodies of the {family.name} family, and {len(held_out)} held out: one policy.",
                tasks=train,
                held_out=held_out,
                training="tasks.locomotion.morphologies.training:FAMILY",
                experimental=True,
            )
        )


def class_name(family: str, variant: str) -> str:
    """The variant's class in `reach`: `ReachWalker6RightFoot`."""
    return "Reach" + "".join(word.capitalize() for word in (family, *variant.split("_")))
