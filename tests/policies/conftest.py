"""Fixtures of tests that train by command."""

from tests.kit.training import hover_compiled as hover_compiled
from tests.kit.training import ppo_compiled as ppo_compiled
