"""Legged robots."""

from embodied.registry import Registry, TaskEntry


def register(registry: Registry) -> None:
    """Register the family's tasks."""
    registry.register(
        TaskEntry(
            name="locomotion/go1-joystick-flat",
            target="tasks.locomotion.joystick:Joystick",
            summary="A Unitree Go1 walks as a joystick commands, on a flat floor.",
            engines=("mujoco", "mjx"),
            training="tasks.locomotion.training:GO1_JOYSTICK",
        )
    )
