"""Meta-World's fifty tasks with a Franka Panda, one of ours in which it may have to ask, and pose tracking."""

from embodied.env.registry import Registry, TaskEntry
from tasks.manipulation import benchmarks

ENGINES = ("mujoco", "mjx", "pybullet", "brax")
# In Bullet, the gripper of an arm that was derived from its file has a damped finger, and a driven one geared to it.
OWN_ENGINES = {"track-pose": ("mujoco", "mjx", "brax")}
"""Task -> engines, where not `ENGINES`."""

TASKS = {
    "rigid_objects.pucks": (
        ("reach", "TOUCH", "Bring the fingertips to a point in the air."),
        ("reach-wall", "TOUCH", "Bring the fingertips to a point behind a wall.", "reach"),
        ("push", "MOVE", "Slide a puck to a goal on the table."),
        ("push-wall", "MOVE", "Slide a puck around a wall to a goal.", "push"),
        ("push-back", "MOVE", "Slide a block towards the robot to a goal.", "push"),
        ("pick-place", "CARRY", "Pick up a puck and bring it to a point in the air."),
        ("pick-place-wall", "CARRY", "Pick up a puck and bring it over a wall to a point.", "pick-place"),
    ),
    "articulated.buttons": (
        ("button-press", "TOUCH", "Press a button on a box."),
        ("button-press-wall", "TOUCH", "Press a button on a box, behind a wall.", "button-press"),
        ("button-press-topdown", "TOUCH", "Press a button on a box from above.", "button-press"),
        ("button-press-topdown-wall", "TOUCH", "Press a button on a box from above, behind a wall.", "button-press"),
    ),
    "articulated.coffee": (
        ("coffee-button", "TOUCH", "Press the button of a coffee machine.", "button-press"),
        ("coffee-push", "MOVE", "Push a cup to a coffee machine."),
        ("coffee-pull", "MOVE", "Pull a cup away from a coffee machine.", "coffee-push"),
    ),
    "rigid_objects.plates": (
        ("plate-slide", "MOVE", "Slide a plate into a cabinet."),
        ("plate-slide-side", "MOVE", "Slide a plate sideways into a cabinet.", "plate-slide"),
        ("plate-slide-back", "MOVE", "Slide a plate out of a cabinet.", "plate-slide"),
        ("plate-slide-back-side", "MOVE", "Slide a plate sideways out of a cabinet.", "plate-slide"),
    ),
    "articulated.doors": (
        ("door-open", "MOVE", "Pull a door open by its handle."),
        ("door-close", "TOUCH", "Push a door shut by its handle.", "door-open"),
    ),
    "articulated.locks": (
        ("door-lock", "MOVE", "Turn the lever of a lock down.", "door-open"),
        ("door-unlock", "MOVE", "Turn the lever of a lock up.", "door-open"),
    ),
    "articulated.handles": (
        ("handle-press", "TOUCH", "Press a handle down."),
        ("handle-press-side", "TOUCH", "Press a handle down that stands at the side.", "handle-press"),
        ("handle-pull", "CARRY", "Pull a handle up.", "handle-press"),
        ("handle-pull-side", "CARRY", "Pull a handle up that stands at the side.", "handle-press"),
    ),
    "articulated.drawers": (
        ("drawer-open", "MOVE", "Pull a drawer open."),
        ("drawer-close", "TOUCH", "Push a drawer shut.", "drawer-open"),
    ),
    "articulated.windows": (
        ("window-open", "TOUCH", "Slide a window open.", "drawer-open"),
        ("window-close", "TOUCH", "Slide a window shut.", "drawer-open"),
    ),
    "articulated.turning": (
        ("faucet-open", "TOUCH", "Turn a faucet's bar to the right.", "dial-turn"),
        ("faucet-close", "TOUCH", "Turn a faucet's bar to the left.", "dial-turn"),
        ("dial-turn", "TOUCH", "Turn a dial."),
    ),
    "articulated.levers": (("lever-pull", "MOVE", "Lift a lever until it stands upright.", "dial-turn"),),
    "rigid_objects.bins": (
        ("bin-picking", "CARRY", "Put a block from one bin into the other.", "box-close"),
        ("box-close", "CARRY", "Put the lid on a box."),
    ),
    "rigid_objects.shelves": (
        ("shelf-place", "CARRY", "Put a block on a shelf.", "pick-place"),
        ("basketball", "CARRY", "Bring a ball to a basket and hold it over the ring.", "pick-place"),
    ),
    "rigid_objects.holes": (
        ("pick-out-of-hole", "CARRY", "Take a puck out of a hole.", "pick-place"),
        ("hand-insert", "CARRY", "Put a block into a hole.", "pick-place"),
    ),
    "rigid_objects.soccer": (("soccer", "MOVE", "Get a ball into a goal.", "push"),),
    "rigid_objects.sweeping": (
        ("sweep", "MOVE", "Sweep a block to the side of the table.", "push"),
        ("sweep-into", "MOVE", "Sweep a block into a hole.", "push"),
    ),
    "rigid_objects.pegs": (
        ("peg-insert-side", "CARRY", "Put a peg into a hole in a box's side."),
        ("peg-unplug-side", "CARRY", "Pull a plug out of its socket.", "peg-insert-side"),
    ),
    "rigid_objects.nuts": (
        ("assembly", "CARRY", "Put a nut onto a peg.", "disassemble"),
        ("disassemble", "CARRY", "Take a nut off a peg."),
    ),
    "rigid_objects.tools": (
        ("hammer", "CARRY", "Drive a nail into a block with a hammer."),
        ("stick-push", "CARRY", "Push a thermos away with a stick.", "hammer"),
        ("stick-pull", "CARRY", "Pull a thermos along with a stick through its handle.", "hammer"),
    ),
    "instructed.pick_among": (
        (
            "pick-among",
            "CARRY",
            "Pick up the thing that is meant, of two or three; the instruction may fit several.",
            "pick-place",
        ),
    ),
    "track_pose": (
        ("track-pose", "TRACK_POSE", "An arm, from its MJCF or URDF file, brings its tip to poses in the air."),
    ),
}
"""Module -> its tasks: name (the class bears it in CamelCase), training defaults, summary, and for many the task that
stands for it in default test runs: its scene and its script are of the same kind."""


def register(registry: Registry) -> None:
    for module, tasks in TASKS.items():
        for name, training, summary, *variant_of in tasks:
            registry.register(
                TaskEntry(
                    name=f"manipulation/{name}",
                    target=f"tasks.manipulation.{module}:{name.title().replace('-', '')}",
                    summary=summary,
                    engines=OWN_ENGINES.get(name, ENGINES),
                    training=f"tasks.manipulation.training:{training}",
                    variant_of=f"manipulation/{variant_of[0]}" if variant_of else None,
                    robots=("arm",) if name == "track-pose" else ("gripper",),
                )
            )
    benchmarks.register(registry)
