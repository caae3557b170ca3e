"""Tasks of users' legged robots, from their MJCF or URDF file."""
