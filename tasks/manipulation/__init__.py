"""Meta-World's fifty tasks, done by a Franka Panda."""
