"""What is derived from a model file: its tree, what kind of robot it is, servos, a home pose, and what looks wrong."""
