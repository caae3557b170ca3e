"""Fixtures of tests that train by command."""

from tests.kit.training import compiled_once as compiled_once
from tests.kit.training import ppo_compiled as ppo_compiled
