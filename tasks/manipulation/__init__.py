"""Meta-World's fifty tasks, done by a Franka Panda."""

from typing import NamedTuple

from embodied.registry import Registry, TaskEntry

ENGINES = ("mujoco", "mjx")


class Row(NamedTuple):
    """One of the fifty."""

    target: str
    """Module and class."""
    training: str
    """Training defaults, see `training.py`."""
    summary: str
    stand_in: str | None = None
    """The task that default test runs take in its place, where the two differ in the scene or the goal alone."""


TASKS = {
    # A free puck, with and without a wall.
    "reach": Row("pucks:Reach", "TOUCH", "Bring the fingertips to a point in the air."),
    "reach-wall": Row("pucks:ReachWall", "TOUCH", "Bring the fingertips to a point behind a wall.", "reach"),
    "push": Row("pucks:Push", "MOVE", "Slide a puck to a goal on the table."),
    "push-wall": Row("pucks:PushWall", "MOVE", "Slide a puck around a wall to a goal.", "push"),
    "push-back": Row("pucks:PushBack", "MOVE", "Slide a block towards the robot to a goal.", "push"),
    "pick-place": Row("pucks:PickPlace", "CARRY", "Pick up a puck and bring it to a point in the air."),
    "pick-place-wall": Row(
        "pucks:PickPlaceWall", "CARRY", "Pick up a puck and bring it over a wall to a point.", "pick-place"
    ),
}


def register(registry: Registry) -> None:
    """Register the family's tasks."""
    for name, row in TASKS.items():
        registry.register(
            TaskEntry(
                name=f"manipulation/{name}",
                target=f"tasks.manipulation.{row.target}",
                summary=row.summary,
                engines=ENGINES,
                training=f"tasks.manipulation.training:{row.training}",
                variant_of=row.stand_in and f"manipulation/{row.stand_in}",
            )
        )
