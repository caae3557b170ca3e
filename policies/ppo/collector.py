"""`Collector`: fills a rollout, step by step or in one program of the environment's."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from embodied.env.multi_agent import of_team
from embodied.env.vec_env import POLICY, RollOut, Step
from policies.networks.normalizer import Normalizer
from policies.networks.optim.parallel import one_thread
from policies.ppo.actor_critic import ActorCritic
from policies.ppo.config import PPOConfig
from policies.ppo.rollout_buffer import Rollout


class Collector:
    """Samples actions and records their results; counts observations and normalises them."""

    def __init__(
        self,
        networks: ActorCritic,
        normalizers: Mapping[str, Normalizer],
        rollout: Rollout,
        critic_group: str,
        config: PPOConfig,
        generator: Generator,
    ) -> None:
        """Begin with no step recorded; `normalizers` are those of all groups read, `generator` draws action noise."""
        self.networks, self.normalizers, self.rollout = networks, normalizers, rollout
        self.critic_group, self.config, self.generator = critic_group, config, generator
        self.log_std: Tensor = networks.actor.log_std.detach().clone()
        """(A,) log deviation of the rollout's actions."""
        self.hidden = rollout.actor_memory.clone()
        """(N, H) hidden states of a recurrent actor."""
        self.time = 0
        """Steps recorded."""
        self._noise = torch.empty_like(rollout.action[0])

    @one_thread()
    @torch.no_grad()
    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Sample actions (N, A) for raw observations, group to (N, size), and remember both."""
        if self.time == self.config.unroll:
            raise RuntimeError(f"the rollout holds {self.time} steps already; call update()")
        rollout, t = self.rollout, self.time
        for group, buffer in rollout.obs.items():
            self._observe(group, obs[group], buffer[t])
        if t == 0:
            rollout.actor_memory.copy_(self.hidden)
        mean = self.networks.act(rollout.actor_obs[t], self.hidden, rollout.mean[t])
        noise = self._noise.normal_(generator=self.generator)
        action = torch.addcmul(mean, noise, self.log_std.exp())
        rollout.action[t].copy_(action)
        return action

    @one_thread()
    @torch.no_grad()
    def record(self, step: Step) -> None:
        """Remember the results of the last actions."""
        rollout, t = self.rollout, self.time
        torch.mul(of_team(step.reward), self.config.reward_scale, out=rollout.reward[t])
        rollout.terminated[t].copy_(step.terminated)
        rollout.truncated[t].copy_(step.truncated)
        rollout.final_obs[t].copy_(step.final_obs[self.critic_group])
        self.hidden.masked_fill_((rollout.terminated[t] | rollout.truncated[t])[:, None], 0.0)
        self.time += 1

    @one_thread()
    @torch.no_grad()
    def in_one(self, roll_out: RollOut, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Take all steps by one program, from raw observations; returns those after the last step."""
        rollout, config = self.rollout, self.config
        begins = config.normalize_observations and self.normalizers[POLICY].empty
        if begins:  # the first rollout is normalised by its first observations
            for group, normalizer in self.normalizers.items():
                normalizer.observe(obs[group])
                normalizer.commit()
        noise = torch.empty_like(rollout.action).normal_(generator=self.generator)
        actor = self.networks.perceptron(
            self.log_std, self.normalizers[POLICY], config.observation_clip, config.actor.activation.value
        )
        following, data = roll_out(obs, actor, noise)
        for group, normalizer in self.normalizers.items():
            seen = data.observation[group]
            if config.normalize_observations:
                normalizer.observe(seen[1 if begins else 0 :].flatten(0, 1))
            normalizer(seen, out=rollout.obs[group])
        rollout.action.copy_(data.action)
        rollout.mean.copy_(data.mean)
        torch.mul(data.reward, config.reward_scale, out=rollout.reward)
        rollout.terminated.copy_(data.terminated)
        rollout.truncated.copy_(data.truncated)
        rollout.final_obs.copy_(data.final_observation[self.critic_group])
        self.time = config.unroll
        return following

    def begin(self) -> None:
        """Begin a new rollout with the actor's present deviation and with the observations counted so far."""
        self.log_std.copy_(self.networks.actor.log_std.detach())
        self.time = 0
        if self.config.normalize_observations:
            for normalizer in self.normalizers.values():
                normalizer.commit()

    def _observe(self, group: str, obs: Tensor, out: Tensor) -> None:
        """Count and normalise one group's observations."""
        normalizer = self.normalizers[group]
        if self.config.normalize_observations:
            normalizer.observe(obs)
            if normalizer.empty:  # the first rollout is normalised by its first observations
                normalizer.commit()
        normalizer(obs, out=out)
