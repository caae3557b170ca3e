"""Wrappers of tasks that commands know by flags, and what they ask of an environment."""
