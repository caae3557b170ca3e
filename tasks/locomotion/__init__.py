"""Legged robots."""

from collections.abc import Iterable, Mapping

from embodied.env.registry import Registry, TaskEntry
from tasks.locomotion import morphologies

ENGINES = ("mujoco", "mjx", "brax")
ROUGH_ENGINES = ("mujoco", "mjx")
"""On rough ground: `brax` has no height fields."""
FLAT_ENGINES = (*ENGINES, "pybullet")

QUADRUPEDS = {"go1": "Unitree Go1", "go2": "Unitree Go2"}
"""Name in task names -> full name."""
ROUGH = {"terrain": "rough"}
QUADRUPED_TASKS = (
    ("joystick-flat", "joystick:Joystick", {}, "walks as a joystick commands, on a flat floor", "JOYSTICK"),
    (
        "joystick-rough",
        "joystick:Joystick",
        ROUGH,
        "walks as a joystick commands, over slopes, stairs and blocks",
        "ROUGH",
    ),
    ("getup", "getup:Getup", {}, "rolls over and stands up", "GETUP"),
    ("handstand", "two_feet:Handstand", {}, "balances on its front feet", "TWO_FEET"),
    ("footstand", "two_feet:Footstand", {}, "balances on its hind feet", "TWO_FEET"),
)
"""Name below `locomotion/<robot>-`, class, config, what the robot does, training defaults."""
HUMANOID = "humanoid_joystick:HumanoidJoystick"
G1_TASKS = (
    ("joystick-flat", HUMANOID, {}, "walks as a joystick commands, on a flat floor", "G1_JOYSTICK"),
    ("joystick-rough", HUMANOID, ROUGH, "walks as a joystick commands, over gentle rough ground", "G1_ROUGH"),
)
"""The same for the Unitree G1."""
ANY_ROBOT = (
    ("velocity", "joystick:Joystick", "walks as a joystick commands", "VELOCITY", "go1-joystick-flat"),
    ("velocity-biped", HUMANOID, "walks on two feet as a joystick commands", "G1_JOYSTICK", "g1-joystick-flat"),
    ("getup", "getup:Getup", "rolls over and stands up", "GETUP", "go1-getup"),
    ("reach", "reach:Reach", "walks to points on the ground", "VELOCITY", "go1-joystick-flat"),
    ("reach-biped", "reach:BipedReach", "walks on two feet to points on the ground", "G1_JOYSTICK", "g1-joystick-flat"),
)
"""Name below `locomotion/` (`-biped`: for two feet), class, what the robot does, training defaults, and the task of
ours that it is alike."""
VARIANTS = {
    **{f"go2-{name}": f"locomotion/go1-{name}" for name, *_ in QUADRUPED_TASKS},
    "go1-footstand": "locomotion/go1-handstand",
    "g1-joystick-rough": "locomotion/go1-joystick-rough",
    "hopper": "locomotion/half-cheetah",
    "walker2d": "locomotion/half-cheetah",
    "half-cheetah-2x3": "locomotion/ant-4x2",
    "humanoid-17x1": "locomotion/ant-4x2",
}
"""Tasks that differ from another in the robot only, or in one number."""
CLASSICS = (
    ("ant", "classic.ant:Ant", "A ball on four legs runs ahead (Gymnasium's Ant-v5).", "ANT"),
    ("ant-4x2", "classic.split:Ant4x2", "Four agents move a leg of the ant each (multi-agent MuJoCo).", "ANT_4X2"),
    (
        "half-cheetah",
        "classic.half_cheetah:HalfCheetah",
        "Half a cheetah runs (Gymnasium's HalfCheetah-v5).",
        "HALF_CHEETAH",
    ),
    (
        "half-cheetah-2x3",
        "classic.split:HalfCheetah2x3",
        "Two agents move a leg of the half-cheetah each (multi-agent MuJoCo).",
        "HALF_CHEETAH_2X3",
    ),
    ("hopper", "classic.hopper:Hopper", "A one-legged jumper hops ahead (Gymnasium's Hopper-v5).", "HOPPER"),
    ("humanoid", "classic.humanoid:Humanoid", "A humanoid walks ahead (Gymnasium's Humanoid-v5).", "HUMANOID"),
    (
        "humanoid-17x1",
        "classic.split:Humanoid17x1",
        "Seventeen agents move a joint of the humanoid each (multi-agent MuJoCo).",
        "HUMANOID_17X1",
    ),
    ("walker2d", "classic.walker2d:Walker2d", "A planar biped walks ahead (Gymnasium's Walker2d-v5).", "WALKER2D"),
    ("sumo", "sumo:Sumo", "Two ants push each other out of a ring.", "SUMO"),
)
"""Name below `locomotion/`, class, summary and training defaults of the classic bodies, alone and in a game."""


def register(registry: Registry) -> None:
    for robot, full_name in QUADRUPEDS.items():
        register_robot(registry, robot, full_name, QUADRUPED_TASKS)
    for name, target, summary, training, variant_of in ANY_ROBOT:
        registry.register(
            TaskEntry(
                name=f"locomotion/{name}",
                target=f"tasks.locomotion.{target}",
                summary=f"A legged robot of a file (--robot FILE, MJCF or URDF) {summary}.",
                engines=FLAT_ENGINES if name == "velocity" else ENGINES,
                training=f"tasks.locomotion.training:{training}",
                variant_of=f"locomotion/{variant_of}",
                robots=("biped",) if name.endswith("-biped") else ("quadruped",),
            )
        )
    register_robot(registry, "g1", "Unitree G1", G1_TASKS)
    for name, target, summary, training in CLASSICS:
        registry.register(
            TaskEntry(
                name=f"locomotion/{name}",
                target=f"tasks.locomotion.{target}",
                summary=summary,
                engines=("mujoco", "mjx") if name == "sumo" else ENGINES,
                training=f"tasks.locomotion.training:{training}",
                variant_of=VARIANTS.get(name),
            )
        )
    morphologies.register(registry)


def register_robot(
    registry: Registry, robot: str, full_name: str, tasks: Iterable[tuple[str, str, Mapping[str, str], str, str]]
) -> None:
    """Register the tasks of one of our robots, with unscaled settings; `pybullet` runs `joystick-flat` only."""
    engines = {"joystick-flat": FLAT_ENGINES, "joystick-rough": ROUGH_ENGINES}
    for name, target, config, summary, training in tasks:
        registry.register(
            TaskEntry(
                name=f"locomotion/{robot}-{name}",
                target=f"tasks.locomotion.{target}",
                summary=f"A {full_name} {summary}.",
                engines=engines.get(name, ENGINES),
                training=f"tasks.locomotion.training:{training}",
                variant_of=VARIANTS.get(f"{robot}-{name}"),
                config={"robot": robot, "scaled": False, **config},
            )
        )
