"""Multi-fingered hands: what they hold, turn and free."""

from embodied.env.registry import Registry, TaskEntry

ENGINES = ("mujoco", "mjx", "brax")
OWN_ENGINES = {"shadow": ("mujoco", "mjx")}
"""Hand -> engines, where not `ENGINES`: the Shadow hand's tendons have springs and limits, which `brax` has not."""
HANDS = {"leap": "The LEAP hand", "allegro": "The Allegro hand", "shadow": "The Shadow hand"}
STANDARD = "leap"  # stands for the others in tests

# name -> class without the name of the hand, training defaults, summary
TASKS = {
    "reorient": ("Reorient", "REORIENT", "turns a cube to one target orientation after the other."),
    "rotate-z": ("RotateZ", "ROTATE_Z", "turns a cube about the vertical, as fast as it can."),
    "lift": ("Lift", "LIFT", "on an arm takes an object from a table."),
    "hand-over": ("HandOver", "HAND_OVER", "passes a baton to another one, which carries it to a mark."),
    "catch": ("Catch", "CATCH", "tosses a ball to another one, which catches and holds it."),
    "pour": ("Pour", "POUR", "tilts a bottle to one commanded angle after the other, and keeps it there."),
}

# the same, of two hands as two agents
TEAMS = {
    "catch-team": ("CatchTeam", "CATCH_TEAM", "Two agents, a hand each, play catch."),
    "hand-over-team": ("HandOverTeam", "HAND_OVER_TEAM", "Two agents, a hand each, pass on a baton."),
}
STANDARD_TEAM = f"grasping/{STANDARD}-catch-team"  # stands for the other in tests


def register(registry: Registry) -> None:
    for hand, words in HANDS.items():
        for name, (target, training, summary) in TASKS.items():
            registry.register(
                TaskEntry(
                    name=f"grasping/{hand}-{name}",
                    target=f"tasks.grasping.hand_tasks:{hand.capitalize()}{target}",
                    summary=f"{words} {summary}",
                    engines=OWN_ENGINES.get(hand, ENGINES),
                    training=f"tasks.grasping.training:{training}",
                    variant_of=None if hand == STANDARD else f"grasping/{STANDARD}-{name}",
                )
            )
    for name, (target, training, summary) in TEAMS.items():
        team = f"grasping/{STANDARD}-{name}"
        registry.register(
            TaskEntry(
                name=team,
                target=f"tasks.grasping.bimanual.team:{STANDARD.capitalize()}{target}",
                summary=summary,
                engines=ENGINES,
                training=f"tasks.grasping.training:{training}",
                variant_of=None if team == STANDARD_TEAM else STANDARD_TEAM,
            )
        )
