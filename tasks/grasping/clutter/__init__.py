"""Clutter: what stands before what, and what has to go first."""
