"""MuJoCo in JAX."""
