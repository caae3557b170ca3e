"""From a trained policy to a robot, and from a robot's log back to a better simulation."""
