"""Reinforcement learning on a target that a twin in simulation makes short; see `python -m sim2real.twin_rl`."""
