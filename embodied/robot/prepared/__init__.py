"""A robot's model rewritten as tasks need it: servos, sensors, a home key, one kind of contact."""
