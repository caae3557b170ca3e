"""IDQL: implicit Q-learning with a diffusion policy."""
