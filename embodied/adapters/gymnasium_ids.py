"""Importing this module registers every task with Gymnasium; see `register_gymnasium`.

Gymnasium has no plug-ins since version 1.0; it imports the module named before the colon of an id instead, also in
the worker processes of `AsyncVectorEnv` and from the command lines of other libraries:

    gymnasium.make("embodied.adapters.gymnasium_ids:embodied/swarm-hover-v0")
"""

from embodied.adapters.gymnasium import register_gymnasium

IDS = register_gymnasium()
"""The registered ids."""
