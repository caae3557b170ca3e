"""Meta-World's fifty tasks, done by a Franka Panda, and one of our own in which it may have to ask."""

from typing import NamedTuple

from embodied.registry import Registry, TaskEntry
from tasks.manipulation import benchmarks

ENGINES = ("mujoco", "mjx")


class Row(NamedTuple):
    """One of the fifty."""

    target: str
    """Module and class."""
    training: str
    """Training defaults, see `training.py`."""
    summary: str
    stand_in: str | None = None
    """The task that default test runs take in its place: its scene and its script are of the same kind."""


TASKS = {
    # A free puck, with and without a wall.
    "reach": Row("loose.pucks:Reach", "TOUCH", "Bring the fingertips to a point in the air."),
    "reach-wall": Row("loose.pucks:ReachWall", "TOUCH", "Bring the fingertips to a point behind a wall.", "reach"),
    "push": Row("loose.pucks:Push", "MOVE", "Slide a puck to a goal on the table."),
    "push-wall": Row("loose.pucks:PushWall", "MOVE", "Slide a puck around a wall to a goal.", "push"),
    "push-back": Row("loose.pucks:PushBack", "MOVE", "Slide a block towards the robot to a goal.", "push"),
    "pick-place": Row("loose.pucks:PickPlace", "CARRY", "Pick up a puck and bring it to a point in the air."),
    "pick-place-wall": Row(
        "loose.pucks:PickPlaceWall", "CARRY", "Pick up a puck and bring it over a wall to a point.", "pick-place"
    ),
    # A button on a box, from the side and from above, with and without a wall.
    "button-press": Row("fixtures.buttons:ButtonPress", "TOUCH", "Press a button on a box."),
    "button-press-wall": Row(
        "fixtures.buttons:ButtonPressWall", "TOUCH", "Press a button on a box, behind a wall.", "button-press"
    ),
    "button-press-topdown": Row(
        "fixtures.buttons:ButtonPressTopdown", "TOUCH", "Press a button on a box from above.", "button-press"
    ),
    "button-press-topdown-wall": Row(
        "fixtures.buttons:ButtonPressTopdownWall",
        "TOUCH",
        "Press a button on a box from above, behind a wall.",
        "button-press",
    ),
    # A coffee machine and a cup.
    "coffee-button": Row(
        "fixtures.coffee:CoffeeButton", "TOUCH", "Press the button of a coffee machine.", "button-press"
    ),
    "coffee-push": Row("fixtures.coffee:CoffeePush", "MOVE", "Push a cup to a coffee machine."),
    "coffee-pull": Row("fixtures.coffee:CoffeePull", "MOVE", "Pull a cup away from a coffee machine.", "coffee-push"),
    # A plate and a cabinet.
    "plate-slide": Row("loose.plates:PlateSlide", "MOVE", "Slide a plate into a cabinet."),
    "plate-slide-side": Row(
        "loose.plates:PlateSlideSide", "MOVE", "Slide a plate sideways into a cabinet.", "plate-slide"
    ),
    "plate-slide-back": Row("loose.plates:PlateSlideBack", "MOVE", "Slide a plate out of a cabinet.", "plate-slide"),
    "plate-slide-back-side": Row(
        "loose.plates:PlateSlideBackSide", "MOVE", "Slide a plate sideways out of a cabinet.", "plate-slide"
    ),
    # A door with a handle, and one with a lock.
    "door-open": Row("fixtures.doors:DoorOpen", "MOVE", "Pull a door open by its handle."),
    "door-close": Row("fixtures.doors:DoorClose", "TOUCH", "Push a door shut by its handle.", "door-open"),
    "door-lock": Row("fixtures.locks:DoorLock", "MOVE", "Turn the lever of a lock down.", "door-open"),
    "door-unlock": Row("fixtures.locks:DoorUnlock", "MOVE", "Turn the lever of a lock up.", "door-open"),
    # A handle in a tower.
    "handle-press": Row("fixtures.handles:HandlePress", "TOUCH", "Press a handle down."),
    "handle-press-side": Row(
        "fixtures.handles:HandlePressSide", "TOUCH", "Press a handle down that stands at the side.", "handle-press"
    ),
    "handle-pull": Row("fixtures.handles:HandlePull", "CARRY", "Pull a handle up.", "handle-press"),
    "handle-pull-side": Row(
        "fixtures.handles:HandlePullSide", "CARRY", "Pull a handle up that stands at the side.", "handle-press"
    ),
    # A drawer and a window.
    "drawer-open": Row("fixtures.drawers:DrawerOpen", "MOVE", "Pull a drawer open."),
    "drawer-close": Row("fixtures.drawers:DrawerClose", "TOUCH", "Push a drawer shut.", "drawer-open"),
    "window-open": Row("fixtures.windows:WindowOpen", "TOUCH", "Slide a window open.", "drawer-open"),
    "window-close": Row("fixtures.windows:WindowClose", "TOUCH", "Slide a window shut.", "drawer-open"),
    # What turns and stays: a faucet, a dial, a lever.
    "faucet-open": Row("fixtures.turning:FaucetOpen", "TOUCH", "Turn a faucet's bar to the right.", "dial-turn"),
    "faucet-close": Row("fixtures.turning:FaucetClose", "TOUCH", "Turn a faucet's bar to the left.", "dial-turn"),
    "dial-turn": Row("fixtures.turning:DialTurn", "TOUCH", "Turn a dial."),
    "lever-pull": Row("fixtures.levers:LeverPull", "MOVE", "Lift a lever until it stands upright.", "dial-turn"),
    # Things that are lifted over an edge: out of bins and holes, and into them, onto a shelf, a box, a basket.
    "bin-picking": Row("loose.bins:BinPicking", "CARRY", "Put a block from one bin into the other.", "box-close"),
    "box-close": Row("loose.bins:BoxClose", "CARRY", "Put the lid on a box."),
    "shelf-place": Row("loose.shelves:ShelfPlace", "CARRY", "Put a block on a shelf.", "pick-place"),
    "basketball": Row(
        "loose.shelves:Basketball", "CARRY", "Bring a ball to a basket and hold it over the ring.", "pick-place"
    ),
    "pick-out-of-hole": Row("loose.holes:PickOutOfHole", "CARRY", "Take a puck out of a hole.", "pick-place"),
    "hand-insert": Row("loose.holes:HandInsert", "CARRY", "Put a block into a hole.", "pick-place"),
    # A ball and a goal; a block to be swept away.
    "soccer": Row("loose.soccer:Soccer", "MOVE", "Get a ball into a goal.", "push"),
    "sweep": Row("loose.sweeping:Sweep", "MOVE", "Sweep a block to the side of the table.", "push"),
    "sweep-into": Row("loose.sweeping:SweepInto", "MOVE", "Sweep a block into a hole.", "push"),
    # A peg and a hole, a plug and a socket; a nut with a handle and a peg.
    "peg-insert-side": Row("loose.pegs:PegInsertSide", "CARRY", "Put a peg into a hole in a box's side."),
    "peg-unplug-side": Row("loose.pegs:PegUnplugSide", "CARRY", "Pull a plug out of its socket.", "peg-insert-side"),
    "assembly": Row("loose.nuts:Assembly", "CARRY", "Put a nut onto a peg.", "disassemble"),
    "disassemble": Row("loose.nuts:Disassemble", "CARRY", "Take a nut off a peg."),
    # Tools: a hammer and a nail, a stick and a thermos.
    "hammer": Row("loose.tools:Hammer", "CARRY", "Drive a nail into a block with a hammer."),
    "stick-push": Row("loose.tools:StickPush", "CARRY", "Push a thermos away with a stick.", "hammer"),
    "stick-pull": Row(
        "loose.tools:StickPull", "CARRY", "Pull a thermos along with a stick through its handle.", "hammer"
    ),
}


def register(registry: Registry) -> None:
    """Register the family's tasks and benchmarks."""
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
    registry.register(
        TaskEntry(
            name="manipulation/pick-among",
            target="tasks.manipulation.instructed.among:PickAmong",
            summary="Pick up the thing that is meant, of two or three; the instruction may fit several.",
            engines=ENGINES,
            training="tasks.manipulation.training:CARRY",
            variant_of="manipulation/pick-place",
        )
    )
    benchmarks.register(registry)
