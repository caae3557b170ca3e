"""Tasks of several drones."""
