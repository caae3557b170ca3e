"""Quadcopters, from one Crazyflie up."""

from embodied.registry import Registry, TaskEntry


def register(registry: Registry) -> None:
    """Register the family's tasks."""
    registry.register(
        TaskEntry(
            name="swarm/hover",
            target="tasks.swarm.hover:Hover",
            summary="A thrown Crazyflie recovers and holds a point in the air.",
            engines=("rigid", "mujoco", "mjx"),
            training="tasks.swarm.training:HOVER",
        )
    )
