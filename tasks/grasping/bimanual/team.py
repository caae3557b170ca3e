"""`grasping/*-team`: two hands as two agents, each of which moves its own base and fingers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import Observation
from embodied.core.world import World
from embodied.parts.split_robot import SplitRobot
from tasks.grasping.bimanual.base import FloatingHandsTask
from tasks.grasping.bimanual.catch import CatchConfig
from tasks.grasping.bimanual.hand_over import HandOverConfig
from tasks.grasping.hand_tasks import LeapCatch, LeapHandOver


class TwoHands(SplitRobot[Any]):
    """Two hands as two agents, in the setting of Bi-DexHands (Chen et al. 2022, arXiv:2206.08686); children name what
    both hands do together."""

    both: ClassVar[type[FloatingHandsTask[Any]]]

    def __init__(self, config: Any = None) -> None:
        task = self.both(config)
        hand = task.action_size // len(task.mounts)
        super().__init__(task, [range(hand * number, hand * (number + 1)) for number in range(len(task.mounts))])

    def __repr__(self) -> str:
        return type(self).__name__

    def observe(self, world: World, state: Any, key: Array) -> Observation:
        """Observation of the task of both hands, the same for either, and `agent` (2), 1 at the agent's place.

        `policy`, with noise: joint_pos rad, base_pos m and rad, touch (1 of each fingertip) log of 1 + N, object_pos
        (6) m from either palm, the last action of both hands; of a ball object_linvel (3) m/s, of a baton axis (3) and
        goal (3) m. `critic`: those; clean_joint_pos rad, joint_vel rad/s, base_vel m/s and rad/s, tips (3 of each
        finger) m, touch_pads log of 1 + N, clean_object_pos (6) m, clean_object_linvel (3) m/s, object_angvel (3)
        rad/s; of a ball flight (1) s and flew (1).
        """
        return super().observe(world, state, key)

    def expert(self, observation: Mapping[str, Array], state: Any) -> Array:
        """The script of both hands, which reads what the first of them observes: each observes all."""
        action = self.task.expert({group: seen[0] for group, seen in observation.items()}, state)
        return action.reshape(self.action_shape)


class LeapCatchTeam(TwoHands):
    """Two hands on floating bases, two agents; a tennis ball in the first one.

    Task: toss the ball to the other hand, which catches it and holds it for 1 s; 4 s in all. Variations, reward,
    failure and success are those of `grasping/leap-catch`; both agents observe everything, and which of the hands they
    are, and earn the same.

    Action: of the agent's hand, six shares of its base's greatest speeds, then how fast each finger servo's target
    moves.
    """

    config_type = CatchConfig
    both = LeapCatch
    language = Language.of("Throw the ball to the other hand, or catch it.", "Play catch, each with one hand.")


class LeapHandOverTeam(TwoHands):
    """Two hands on floating bases, two agents; a relay baton in the first one.

    Task: the other hand takes the baton, carries it to a target, level, and holds it there for 1 s; 10 s in all.
    Variations, reward, failure and success are those of `grasping/leap-hand-over`; both agents observe everything, and
    which of the hands they are, and earn the same.

    Action: of the agent's hand, six shares of its base's greatest speeds, then how fast each finger servo's target
    moves.
    """

    config_type = HandOverConfig
    both = LeapHandOver
    language = Language.of("Pass the baton on, or take it and hold it up.", "Hand the stick over, each with one hand.")
