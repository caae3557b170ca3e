"""Meta-World's fifty tasks, done by a Franka Panda."""

from embodied.registry import Registry, TaskEntry

ENGINES = ("mujoco", "mjx")

# name -> target, training defaults, summary
TASKS = {
    "reach": ("pucks:Reach", "REACH", "Bring the fingertips to a point in the air."),
    "reach-wall": ("pucks:ReachWall", "REACH", "Bring the fingertips to a point behind a wall."),
    "push": ("pucks:Push", "PUSH", "Slide a puck to a goal on the table."),
    "push-wall": ("pucks:PushWall", "PUSH", "Slide a puck around a wall to a goal."),
    "push-back": ("pucks:PushBack", "PUSH", "Slide a block towards the robot to a goal."),
    "pick-place": ("pucks:PickPlace", "PICK_PLACE", "Pick up a puck and bring it to a point in the air."),
    "pick-place-wall": ("pucks:PickPlaceWall", "PICK_PLACE", "Pick up a puck and bring it over a wall to a point."),
}
# The one task of each that default test runs take; the others differ in the scene or the goal alone.
STAND_IN = {"reach-wall": "reach", "push-wall": "push", "push-back": "push", "pick-place-wall": "pick-place"}


def register(registry: Registry) -> None:
    """Register the family's tasks."""
    for name, (target, training, summary) in TASKS.items():
        stand_in = STAND_IN.get(name)
        registry.register(
            TaskEntry(
                name=f"manipulation/{name}",
                target=f"tasks.manipulation.{target}",
                summary=summary,
                engines=ENGINES,
                training=f"tasks.manipulation.training:{training}",
                variant_of=stand_in and f"manipulation/{stand_in}",
            )
        )
