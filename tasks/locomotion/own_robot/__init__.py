"""Tasks of legged robots of one's own, from their MJCF or URDF file."""
