"""Quadcopters, from one Crazyflie to a thousand."""

from embodied.env.registry import Registry, TaskEntry

ENGINES = ("rigid", "mujoco", "mjx", "pybullet", "brax")

# name -> target, training defaults, summary
ALONE = {
    "hover": ("single.hover:Hover", "HOVER", "A thrown Crazyflie recovers and holds a point in the air."),
    "visual-hover": (
        "single.visual_hover:VisualHover",
        "HOVER",
        "A thrown Crazyflie holds a point over a mark that its camera sees.",
    ),
    "trajectory": (
        "single.trajectory:Trajectory",
        "TRAJECTORY",
        "A drone follows a smooth path by body rates and thrust.",
    ),
    "landing": ("single.landing:Landing", "LANDING", "A drone comes down on a pad through the air's cushion."),
    "gate-race": ("single.gate_race:GateRace", "GATE_RACE", "A drone races through a course of gates."),
}
OF_ANY_ROBOT = ("hover", "trajectory")
"""Tasks that take a multirotor from a file."""
TEAMS = {
    "formation": ("multi.formation:Formation", "WAYPOINTS", "Drones take their slots in a formation that travels."),
    "leader-follower": (
        "multi.formation:LeaderFollower",
        "WAYPOINTS",
        "One drone knows the way, the others follow it.",
    ),
    "swap": ("multi.formation:Swap", "WAYPOINTS", "Drones change places with the one opposite."),
    "meet-up": ("multi.formation:MeetUp", "WAYPOINTS", "Drones scattered in the air come together."),
    "flock": ("flocking.flock:Flock", "FLOCK", "Drones agree on a direction and fly it together."),
    "mean-field-flock": (
        "flocking.mean_field:MeanFieldFlock",
        "MEAN_FIELD",
        "A policy chooses the rule by which hundreds of drones come to fly in one direction.",
    ),
    "navigation": ("multi.navigation:Navigation", "NAVIGATION", "Every drone to its own place between columns."),
    "path-finding": ("maze.path_finding:PathFinding", "PATH_FINDING", "Drones in a maze are sent from goal to goal."),
    "pursuit": ("multi.pursuit:Pursuit", "PURSUIT", "A team keeps moving targets in sight."),
    "tag": ("multi.tag:Tag", "TAG", "Predators catch a faster prey between columns."),
    "coverage": ("multi.coverage:Coverage", "COVERAGE", "A team explores unknown ground around hills."),
    "base-station": ("multi.base_station:BaseStation", "BASE_STATION", "Drones place themselves as radio stations."),
}


def register(registry: Registry) -> None:
    for tasks, module in ((ALONE, "single.training"), (TEAMS, "multi.training")):
        for name, (target, training, summary) in tasks.items():
            registry.register(
                TaskEntry(
                    name=f"swarm/{name}",
                    target=f"tasks.swarm.{target}",
                    summary=summary,
                    engines=ENGINES,
                    training=f"tasks.swarm.{module}:{training}",
                    robots=("multirotor",) if name in OF_ANY_ROBOT else (),
                )
            )
