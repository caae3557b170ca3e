"""Measures the fifty tasks of metaworld 3.1.1 and writes them to metaworld.json beside this package.

metaworld pins mujoco 3.3.0 and cannot share an environment with ours, so it gets one of its own. Run from the
repository's root, which needs no installation there:

    python3 -m venv .venv-metaworld
    .venv-metaworld/bin/pip install metaworld==3.1.1 packaging
    OMP_NUM_THREADS=1 .venv-metaworld/bin/python -m benchmarks.reference.metaworld_facts

Everything but two tables is read from the constructed environments. The tables, slots.POINTS and success.SUCCESS,
restate the package's source on observed points and success in a form that our tests can evaluate; both are
checked against the package at every step of a 500-step expert episode, and the numbers of disagreements are part of the
output.

Modules: `scenes` describes compiled models, `slots` what an observation shows, `success` when a task is solved, `draws`
what a reset does with its random vector, `episodes` how tasks start and how experts solve them, `tasks` puts these
together for one task, and `__main__` for all.

Units are m, s, rad and kg, quaternions wxyz unless noted otherwise. The world frame has x to the right of the robot, y
away from it and z up, with the origin in its base at the height of the table top.
"""
