"""Bundles whose policy is a whole control step: golden steps, C, README, and what is put together."""
