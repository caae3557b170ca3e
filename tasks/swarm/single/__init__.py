"""Tasks of one drone."""
