"""Derivation from a model file: its tree, the kind of robot, servos, a home pose, and warnings."""
