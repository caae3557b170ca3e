"""Quadcopters, from one Crazyflie to a thousand."""

from embodied.registry import Registry, TaskEntry

ENGINES = ("rigid", "mujoco", "mjx", "pybullet", "brax")

# name -> target, training defaults, summary
ALONE = {
    "hover": ("hover:Hover", "HOVER", "A thrown Crazyflie recovers and holds a point in the air."),
    "visual-hover": (
        "visual_hover:VisualHover",
        "HOVER",
        "A thrown Crazyflie holds a point over a mark that its camera sees.",
    ),
    "trajectory": ("trajectory:Trajectory", "TRAJECTORY", "A drone follows a smooth path by body rates and thrust."),
    "landing": ("landing:Landing", "LANDING", "A drone comes down on a pad through the air's cushion."),
    "gate-race": ("gate_race:GateRace", "GATE_RACE", "A drone races through a course of gates."),
}
TEAMS = {
    "formation": ("formation:Formation", "WAYPOINTS", "Drones take their slots in a formation that travels."),
    "leader-follower": ("formation:LeaderFollower", "WAYPOINTS", "One drone knows the way, the others follow it."),
    "swap": ("formation:Swap", "WAYPOINTS", "Drones change places with the one opposite."),
    "meet-up": ("formation:MeetUp", "WAYPOINTS", "Drones scattered in the air come together."),
    "flock": ("flocking.flock:Flock", "FLOCK", "Drones agree on a direction and fly it together."),
    "mean-field-flock": (
        "flocking.mean_field:MeanFieldFlock",
        "MEAN_FIELD",
        "A policy chooses the rule by which hundreds of drones come to fly in one direction.",
    ),
    "navigation": ("navigation:Navigation", "NAVIGATION", "Every drone to its own place between columns."),
    "path-finding": ("maze.path_finding:PathFinding", "PATH_FINDING", "Drones in a maze are sent from goal to goal."),
    "pursuit": ("pursuit:Pursuit", "PURSUIT", "A team keeps moving targets in sight."),
    "tag": ("tag:Tag", "TAG", "Predators catch a faster prey between columns."),
    "coverage": ("coverage:Coverage", "COVERAGE", "A team explores unknown ground around hills."),
    "base-station": ("base_station:BaseStation", "BASE_STATION", "Drones place themselves as radio stations."),
}


def register(registry: Registry) -> None:
    for tasks, module in ((ALONE, "training"), (TEAMS, "team_training")):
        for name, (target, training, summary) in tasks.items():
            registry.register(
                TaskEntry(
                    name=f"swarm/{name}",
                    target=f"tasks.swarm.{target}",
                    summary=summary,
                    engines=ENGINES,
                    training=f"tasks.swarm.{module}:{training}",
                )
            )
