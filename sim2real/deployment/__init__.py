"""The loop between a policy and a robot, and the safety chain in it."""
