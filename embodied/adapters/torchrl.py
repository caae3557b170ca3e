"""`Env` as a TorchRL `EnvBase`. Needs `torchrl>=0.9`, which is not one of embodied's dependencies.

env = TorchRLEnv(embodied.make("swarm/hover", num_envs=1024))
data = env.rollout(100, policy, break_when_any_done=False)      # (1024, 100), data["next", "policy"] ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase  # pyright: ignore[reportMissingImports] - an extra
from torch import Tensor
from torchrl.data import Bounded, Composite, Unbounded  # pyright: ignore[reportMissingImports]
from torchrl.envs import EnvBase  # pyright: ignore[reportMissingImports]

from embodied.adapters.tensors import TensorView
from embodied.core.episode import SEEDS
from embodied.env.env import Env
from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError, whole_number


class TorchRLEnv(EnvBase):
    """The N environments of an `Env` as TorchRL expects them, with batch size (N,).

    Observations have the names of the task's groups: `policy`, `critic`, `pixels/<camera>`. `action` (N, action_size)
    lies in [-1, 1]; `reward`, `done`, `terminated`, `truncated` and `success` (solved at this instant) are (N, 1).
    A step that ends an episode leads to its last observation; the reset that TorchRL then calls takes up the next
    episode, which `Env` has already begun. So values are bootstrapped from the right observation.
    """

    def __init__(self, env: Env, groups: Sequence[str] | None = None) -> None:
        super().__init__(device=env.device, batch_size=torch.Size([env.num_envs]))
        self.env, self.view = env, TensorView(env, groups, "torchrl")
        self._seed: int | None = None
        self._following: dict[str, Tensor] = {}  # what every environment observes now, next episodes included
        self._ended = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self._make_specs()

    def _make_specs(self) -> None:
        each, device = torch.Size([self.env.num_envs, 1]), self.device
        names = ("success", "done", "terminated", "truncated")
        flags = {name: Unbounded(each, dtype=torch.bool, device=device) for name in names}
        shown = {name: self._spec(of) for name, of in self.view.spec.items()} | {"success": flags.pop("success")}
        self.observation_spec = Composite(shown, shape=self.batch_size, device=device)
        self.action_spec = Bounded(-1.0, 1.0, torch.Size([self.env.num_envs, self.env.action_size]), device=device)
        self.reward_spec = Unbounded(each, device=device)
        self.done_spec = Composite(flags, shape=self.batch_size, device=device)

    def _spec(self, of: ObservationSpec) -> Any:
        shape = torch.Size([self.env.num_envs, *of.shape])
        if of.dtype == torch.uint8:
            return Bounded(0, 255, shape, dtype=torch.uint8, device=self.device)
        return Unbounded(shape, dtype=of.dtype, device=self.device)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Start all environments afresh, or go on to the next episode of those that ended.

        Raises:
            EmbodiedError: an environment is to be reset in the middle of its episode, while others go on.
        """
        del kwargs
        asked = None if tensordict is None else tensordict.get("_reset", None)
        if asked is None or bool(asked.all() and not self._ended.all()):
            self._following = self.view.of(self.env.reset(self._seed))
            self._seed = None if self._seed is None else (self._seed + 1) % SEEDS
        elif bool((asked.reshape(-1) & ~self._ended).any()):
            row = int(torch.nonzero(asked.reshape(-1) & ~self._ended)[0, 0])
            raise EmbodiedError(
                f"environment {row} is to be reset in the middle of its episode, but all or only ended ones can be; "
                f"leave the time limit of {self.env.max_episode_steps} steps to the task"
            )
        self._ended = torch.zeros_like(self._ended)
        return self._packed(self._following, torch.zeros_like(self._ended))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        step = self.env.step(self.view.action(tensordict["action"]))
        self._following, self._ended = self.view.of(step.obs), step.done
        final = self.view.of(step.final_obs) if bool(step.done.any()) else self._following
        packed = self._packed(final, step.success)
        packed["reward"] = self.view.reward(step).unsqueeze(1)
        for name in ("done", "terminated", "truncated"):
            packed[name] = getattr(step, name).unsqueeze(1)
        return packed

    def _packed(self, observation: dict[str, Tensor], success: Tensor) -> TensorDict:
        values = {**observation, "success": success.unsqueeze(1)}
        return TensorDict(values, batch_size=self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        """The seed of the next reset of all environments; each later one takes the next seed.

        Raises:
            EmbodiedError: the seed is no whole number of at least 0.
        """
        self._seed = None if seed is None else whole_number("seed", seed, 0) % SEEDS

    def close(self, *, raise_if_closed: bool = True) -> None:
        self.env.close()
        super().close(raise_if_closed=raise_if_closed)
