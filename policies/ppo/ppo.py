"""Proximal policy optimisation: act, record, update."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from embodied.env.multi_agent import of_team
from embodied.env.rollout import PerceptronActor
from embodied.env.vec_env import POLICY, ObservationSpec, RollOut, Step, VecEnv, vector_sizes
from embodied.math.symmetry import Mirror
from embodied.storage.trees import same_shapes
from policies.algorithm import Algorithm, MismatchError, SettingsError, require_finite, require_policy_group
from policies.networks import gaussian
from policies.networks.build import make_actor, make_critic
from policies.networks.mlp import MLP, Architecture
from policies.networks.normalizer import Normalizer
from policies.networks.recurrent import RecurrentNetwork, Sequences, outputs
from policies.optim import distributed
from policies.optim.cpu_settings import keep_freed_memory
from policies.optim.flat_parameters import FlatAdamW
from policies.optim.parallel import ATTENTION, PLAIN, Workers, one_thread
from policies.policy import NormalizedActor, Policy
from policies.ppo.config import PPOConfig
from policies.ppo.curiosity import Curiosity
from policies.ppo.gae import gae
from policies.ppo.learning_rate import LearningRate
from policies.ppo.losses import PolicyLoss, ValueLoss, policy_loss, value_loss
from policies.ppo.rollout_buffer import ActorBatch, CriticBatch, Rollout
from policies.ppo.symmetry import SymmetricParameters, TorchReflection

MEASURES = ("policy_loss", "value_loss", "kl", "clip_fraction")
"""Means over a minibatch that are measured along with its gradient."""
REPORTED = (*MEASURES, "gradient_norm", "std", "entropy", "explained_variance", "learning_rate")
"""What `update` returns: means over the update, and from "std" on values after it."""


class PPO(Algorithm):
    """Learns from rollouts of N environments: `act` and `record` for each step, then `update`."""

    def __init__(
        self,
        observation_spec: Mapping[str, ObservationSpec],
        action_size: int,
        num_envs: int,
        config: PPOConfig,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
        mirror: Callable[[], Mirror] | None = None,
    ) -> None:
        """Build networks, normalisers and buffers.

        Args:
            observation_spec: The environment's observation groups, "policy" among them.
            action_size: Length of an action.
            num_envs: N.
            config: Settings.
            device: Where everything lies.
            seed: Fixes the initial weights and, together with the rank, the action noise and the minibatches.
            mirror: The environment's (`VecEnv.mirror`), asked where the settings use symmetry.

        Raises:
            EmbodiedError: the settings do not fit the environments, or use a symmetry that these do not have.
        """
        require_policy_group(observation_spec)
        sizes = vector_sizes(observation_spec)
        keep_freed_memory()
        self.config, self.device, self.num_envs = config, torch.device(device), num_envs
        self.critic_group = config.critic_group if config.critic_group in sizes else POLICY
        self._build_networks(sizes, action_size, seed)
        self._symmetric: SymmetricParameters | None = None
        reflect: dict[str, TorchReflection] = {}
        if config.symmetry.network:
            reflect = self._use_symmetry(mirror)
        used = {group: sizes[group] for group in (POLICY, self.critic_group)}
        self.normalizers = {
            group: Normalizer(size, self.device, config.observation_clip, reflect.get(group))
            for group, size in used.items()
        }
        self.rollout = self._built_rollout(used, action_size)
        self._hidden = self.rollout.actor_memory.clone()
        own_seed = seed * distributed.size() + distributed.rank()
        self.noise_generator = torch.Generator(self.device).manual_seed(2 * own_seed)
        self.order_generator = torch.Generator(self.device).manual_seed(2 * own_seed + 1)
        self._old_log_std = self.actor.log_std.detach().clone()
        self._noise = torch.empty(num_envs, action_size, device=self.device)
        self._time, self._updates = 0, 0
        self._policy_loss = torch.compile(policy_loss) if config.compile else policy_loss
        self._value_loss = torch.compile(value_loss) if config.compile else value_loss

    def _build_networks(self, sizes: Mapping[str, int], action_size: int, seed: int) -> None:
        config, weights = self.config, torch.Generator().manual_seed(seed)
        actor = make_actor(sizes[POLICY], action_size, config.actor, config.initial_std, weights)
        critic = make_critic(sizes[self.critic_group], config.critic, weights)
        self.actor, self.critic = actor.to(self.device), critic.to(self.device)
        self.learning_rate = LearningRate(config, self.device)
        parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = FlatAdamW(parameters, self.learning_rate.value, max_grad_norm=config.max_grad_norm)
        self._actor_numbers = sum(parameter.numel() for parameter in self.actor.parameters())
        attends = {config.actor.architecture, config.critic.architecture} - {Architecture.MLP, Architecture.GRU}
        self._workers = Workers(self.device, chunk=ATTENTION if attends else PLAIN)
        self._curiosity: Curiosity | None = None
        if config.curiosity.weight:
            self._curiosity = Curiosity(sizes[POLICY], config.curiosity, self.device, seed)

    def _built_rollout(self, sizes: Mapping[str, int], action_size: int) -> Rollout:
        config = self.config
        rollout = Rollout(
            config.unroll,
            self.num_envs,
            sizes,
            action_size,
            actor_group=POLICY,
            critic_group=self.critic_group,
            actor_memory=config.actor.memory,
            critic_memory=config.critic.memory,
            device=self.device,
        )
        if config.minibatches > rollout.units:
            units = (
                f"{self.num_envs} environments, of which a network that remembers learns whole sequences"
                if rollout.whole
                else f"{rollout.units} transitions of a rollout (unroll={config.unroll} x {self.num_envs} environments)"
            )
            raise SettingsError(f"minibatches={config.minibatches} exceeds the {units}")
        return rollout

    def _use_symmetry(self, mirror: Callable[[], Mirror] | None) -> dict[str, TorchReflection]:
        """Make the weights symmetric; returns what mirrors each observation group that is read."""
        if mirror is None:
            raise SettingsError("symmetry is used, but no mirror of the environment was given; expected VecEnv.mirror")
        found = mirror()
        self._symmetric = SymmetricParameters(self.actor, self.critic, found, (POLICY, self.critic_group))
        self._symmetric.begin(self.optimizer.vector)
        return {group: TorchReflection(found.observed[group], self.device) for group in {POLICY, self.critic_group}}

    def _forget_symmetry(self) -> None:
        self._symmetric = None
        for normalizer in self.normalizers.values():
            normalizer.reflect = None

    @property
    def unroll(self) -> int:
        """Control steps of every environment per iteration."""
        return self.config.unroll

    @property
    def policy(self) -> Policy:
        """The present policy; it shares this learner's weights and goes on learning with it."""
        statistics = self.normalizers[POLICY]
        mean, scale = self.actor.statistics(statistics.mean, statistics.scale)
        network = NormalizedActor(self.actor, mean, scale, self.config.observation_clip)
        return Policy(network, self.config.actor)

    @torch.no_grad()
    def start_from(self, policy: Policy) -> None:
        """Begin with another policy's network, noise and statistics; the critic begins untaught.

        From a policy that is not symmetric, one goes on without `symmetry.network`.

        Raises:
            MismatchError: its network has other layers than this learner's.
        """
        own = {name: tuple(tensor.shape) for name, tensor in self.actor.named_parameters()}
        given = {name: tuple(tensor.shape) for name, tensor in policy.network.actor.named_parameters()}
        if own != given or policy.config.activation is not self.config.actor.activation:
            raise MismatchError(
                f"cannot start from a policy of kind '{policy.kind}' with hidden={policy.config.hidden} "
                f"{policy.config.activation} for {policy.observation_size} observations and {policy.action_size} "
                f"actions; this learner's actor has hidden={self.config.actor.hidden} {self.config.actor.activation} "
                f"for {self.actor.sizes}"
            )
        # In place: every parameter is a view into the optimiser's vector.
        for parameter, source in zip(self.actor.parameters(), policy.network.actor.parameters(), strict=True):
            parameter.copy_(source)
        if self._symmetric is not None and not self._symmetric.holds(self.optimizer.vector):
            self._forget_symmetry()
        self._keep_exploring()
        self._old_log_std.copy_(self.actor.log_std)
        network = policy.network
        if self.config.normalize_observations:
            self.normalizers[POLICY].adopt(network.observation_mean, network.observation_scale)

    @torch.no_grad()
    def take_critic(self, state: Mapping[str, Any]) -> bool:
        """Begin with the critic of a training by PPO, and its statistics; returns whether it fits.

        It does where actor and critic together have as many parameters, and observe as much, as here.
        """
        group, own = self.critic_group, self.normalizers[self.critic_group]
        given, statistics = state.get("optimizer", {}), state.get("normalizers", {}).get(group, {})
        fits = same_shapes(given, self.optimizer.state()) and same_shapes(statistics, own.state())
        if fits:
            critic = slice(self._actor_numbers, None)
            self.optimizer.vector[critic] = given["parameters"][critic].to(self.device)
            if group != POLICY:  # those of `policy` are the policy's
                own.load_state(statistics)
        return fits

    def collect(self, env: VecEnv, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Take `unroll` steps: in one program, where the environment offers one and the actor is a perceptron."""
        roll_out = env.roll_out
        if roll_out is None or self.config.actor.architecture is not Architecture.MLP:
            return super().collect(env, obs)
        return self._collect_in_one(roll_out, obs)

    @one_thread()
    @torch.no_grad()
    def _collect_in_one(self, roll_out: RollOut, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        rollout, normalizes = self.rollout, self.config.normalize_observations
        begins = normalizes and self.normalizers[POLICY].empty
        if begins:  # the first rollout is normalised by its first observations
            for group, normalizer in self.normalizers.items():
                normalizer.observe(obs[group])
                normalizer.commit()
        noise = torch.empty_like(rollout.action).normal_(generator=self.noise_generator)
        following, data = roll_out(obs, self._perceptron(), noise)
        for group, normalizer in self.normalizers.items():
            seen = data.observation[group]
            if normalizes:
                normalizer.observe(seen[1 if begins else 0 :].flatten(0, 1))
            normalizer(seen, out=rollout.obs[group])
        rollout.action.copy_(data.action)
        rollout.mean.copy_(data.mean)
        torch.mul(data.reward, self.config.reward_scale, out=rollout.reward)
        rollout.terminated.copy_(data.terminated)
        rollout.truncated.copy_(data.truncated)
        rollout.final_obs.copy_(data.final_observation[self.critic_group])
        self._time = self.config.unroll
        return following

    def _perceptron(self) -> PerceptronActor:
        """The actor and its normaliser as the numbers that a rollout's program takes."""
        network, normalizer, config = self.actor.mean, self.normalizers[POLICY], self.config
        assert isinstance(network, MLP)
        return PerceptronActor(
            weights=tuple(layer.weight.detach() for layer in network.linears),
            biases=tuple(layer.bias.detach() for layer in network.linears),
            log_std=self._old_log_std,
            observation_mean=normalizer.mean,
            observation_scale=normalizer.scale,
            observation_clip=config.observation_clip,
            activation=config.actor.activation.value,
        )

    @one_thread()
    @torch.no_grad()
    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Sample actions for the present observations and remember both.

        Args:
            obs: Group to (N, size) raw observations.

        Returns:
            (N, A) actions, unbounded: the environment clips them, the learner reasons about them as sampled.
        """
        if self._time == self.config.unroll:
            raise RuntimeError(f"the rollout holds {self._time} steps already; call update()")
        rollout, t = self.rollout, self._time
        for group, buffer in rollout.obs.items():
            self._observe(group, obs[group], buffer[t])
        if t == 0:
            rollout.actor_memory.copy_(self._hidden)
        mean = self._act(rollout.actor_obs[t], rollout.mean[t])
        noise = self._noise.normal_(generator=self.noise_generator)
        action = torch.addcmul(mean, noise, self._old_log_std.exp())
        rollout.action[t].copy_(action)
        return action

    @one_thread()
    @torch.no_grad()
    def record(self, step: Step) -> None:
        """Remember what the actions of the last `act` brought."""
        rollout, t = self.rollout, self._time
        torch.mul(of_team(step.reward), self.config.reward_scale, out=rollout.reward[t])
        rollout.terminated[t].copy_(step.terminated)
        rollout.truncated[t].copy_(step.truncated)
        rollout.final_obs[t].copy_(step.final_obs[self.critic_group])
        self._hidden.masked_fill_((rollout.terminated[t] | rollout.truncated[t])[:, None], 0.0)
        self._time += 1

    @one_thread()
    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        """Improve the policy by the recorded rollout, which is then forgotten.

        Args:
            obs: The observations after its last step.
            progress: How much of the training is done, 0 to 1; read by a linear schedule.

        Returns:
            Losses and other measures, averaged over the update.

        Raises:
            DivergedError: They are not finite.
        """
        if self._time < self.config.unroll:
            raise RuntimeError(f"the rollout holds {self._time} of {self.config.unroll} steps")
        curious = {} if self._curiosity is None else self._rewarded(self._curiosity, obs[POLICY])
        self._estimate(obs)
        self.learning_rate.start(progress)
        measures = torch.stack(self._learn()).mean(0)
        if not self._holds_actor:  # an actor that stands still is no reason to speed up
            self.learning_rate.adapt(measures[MEASURES.index("kl")])
        return self._finish(measures) | {name: value.item() for name, value in curious.items()}

    @property
    def _holds_actor(self) -> bool:
        """Whether only the critic learns yet."""
        return self._updates < self.config.critic_warm_up

    def _learn(self) -> list[Tensor]:
        """The gradient steps on a rollout; returns the measures of each, as of `_minibatch`."""
        return [
            self._minibatch(index)
            for _ in range(self.config.epochs)
            for index in self.rollout.minibatches(self.config.minibatches, self.order_generator)
        ]

    def state(self) -> dict[str, Any]:
        """Everything that decides how training goes on, as tensors; callable between rollouts only."""
        if self._time:
            raise RuntimeError(f"state() was called {self._time} steps into a rollout; call it after update()")
        return {
            "optimizer": self.optimizer.state(),
            "learning_rate": self.learning_rate.value.clone(),
            "normalizers": {group: normalizer.state() for group, normalizer in self.normalizers.items()},
            "noise_generator": self.noise_generator.get_state(),
            "order_generator": self.order_generator.get_state(),
            "updates": self._updates,
            **({} if self._curiosity is None else {"curiosity": self._curiosity.state()}),
            **({"memory": self._memory()} if self.rollout.whole else {}),
            **({"symmetric": self._symmetric is not None} if self.config.symmetry.network else {}),
        }

    def _memory(self) -> dict[str, Tensor]:
        """What actor and critic remember of the running episodes, (N, H) each."""
        return {"actor": self._hidden.clone(), "critic": self.rollout.critic_memory.clone()}

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        """Continue from what `state` returned: bit for bit, unless another rank's noise would be repeated.

        Args:
            tree: The state.
            explore_alike: Continue the random numbers too; False where the state is another rank's, whose rollouts
                this one must not repeat.
        """
        self.optimizer.load_state(tree["optimizer"])
        self.learning_rate.value.copy_(tree["learning_rate"])
        for group, normalizer in self.normalizers.items():
            normalizer.load_state(tree["normalizers"][group])
        if self._curiosity is not None:
            self._curiosity.load_state(tree["curiosity"])
        if explore_alike:
            self.noise_generator.set_state(tree["noise_generator"].cpu())
            self.order_generator.set_state(tree["order_generator"].cpu())
        if self.rollout.whole:
            for name, hidden in (("actor", self._hidden), ("critic", self.rollout.critic_memory)):
                hidden.copy_(tree["memory"][name]) if explore_alike else hidden.zero_()
        self._old_log_std.copy_(self.actor.log_std.detach())
        if self._symmetric is not None and not tree["symmetric"]:
            self._forget_symmetry()
        self._time, self._updates = 0, int(tree["updates"])

    def _observe(self, group: str, obs: Tensor, out: Tensor) -> None:
        """Count and normalise one group's observations."""
        normalizer = self.normalizers[group]
        if self.config.normalize_observations:
            normalizer.observe(obs)
            if normalizer.empty:  # The first rollout is normalised by its first observations.
                normalizer.commit()
        normalizer(obs, out=out)

    @torch.no_grad()
    def _estimate(self, obs: Mapping[str, Tensor]) -> None:
        """Values, advantages and log probabilities of the whole rollout, once for all epochs."""
        rollout, config = self.rollout, self.config
        final_value, last_value = self._values(self.normalizers[self.critic_group], obs[self.critic_group])
        advantage, returns = gae(
            rollout.reward,
            rollout.value,
            last_value,
            final_value,
            rollout.terminated,
            rollout.truncated,
            gamma=config.gamma,
            lam=config.lam,
        )
        if config.normalize_advantage:
            _standardize(advantage)
        rollout.advantage.copy_(advantage)
        rollout.returns.copy_(returns)
        z = gaussian.standardize(rollout.action, rollout.mean, self._old_log_std)
        rollout.log_prob.copy_(gaussian.log_density(z, self._old_log_std))

    def _rewarded(self, curiosity: Curiosity, last_obs: Tensor) -> dict[str, Tensor]:
        """Add to the rollout's rewards those for what each step reached, then learn what that was; returns measures.

        Where an episode ended, that is the start of the next one: known soon, so it earns next to nothing.
        """
        reached = torch.cat([self.rollout.actor_obs[1:], self.normalizers[POLICY](last_obs)[None]])
        reward = curiosity.reward(reached)
        self.rollout.reward.add_(reward)
        rows = reached.flatten(0, 1)
        order = torch.randperm(len(rows), generator=self.order_generator, device=self.device)
        errors = [curiosity.learn(rows[index]) for index in order.tensor_split(self.config.minibatches)]
        return {"curiosity_reward": reward.mean(), "curiosity_error": torch.stack(errors).mean()}

    def _values(self, normalizer: Normalizer, last_obs: Tensor) -> tuple[Tensor, Tensor]:
        """Fill in the values of the rollout; returns (T, N) those where the time limit ended an episode, and (N,) those
        after the last step.

        Only terminal observations of truncated episodes are evaluated; elsewhere the value is never read.
        """
        rollout, network = self.rollout, self.critic.value
        final_value, rows = torch.zeros_like(rollout.value), rollout.truncated.nonzero(as_tuple=True)
        final_obs, last_obs = normalizer(rollout.final_obs[rows]), normalizer(last_obs)
        if isinstance(network, RecurrentNetwork):
            sequences = Sequences(rollout.critic_memory, rollout.begins)
            values, states = network.over(rollout.critic_obs.flatten(0, 1), sequences)
            rollout.value.view(-1, 1).copy_(values)
            final_value[rows] = network(final_obs, states[rows])[0].squeeze(-1)
            ended = rollout.terminated[-1] | rollout.truncated[-1]
            self._critic_hidden = states[-1].masked_fill(ended[:, None], 0.0)
            return final_value, network(last_obs, self._critic_hidden)[0].squeeze(-1)
        self._forward(network, rollout.critic_obs.flatten(0, 1), rollout.value.view(-1, 1))
        if len(rows[0]):
            final_value[rows] = self.critic(final_obs)
        return final_value, self.critic(last_obs)

    def _minibatch(self, index: Tensor) -> Tensor:
        """Take one gradient step; returns the measures of the minibatch and the gradient's norm."""
        total = distributed.mean_(self._gradient(index))
        gradient, measures = total[: -len(MEASURES)], total[-len(MEASURES) :]
        if self._symmetric is not None:
            self._symmetric.average_(gradient)
        norm = self.optimizer.step(gradient, held=self._actor_numbers if self._holds_actor else 0)
        self._keep_exploring()
        return torch.cat([measures, norm[None]])

    def _gradient(self, index: Tensor) -> Tensor:
        """(P + 4,) gradient of the loss of a minibatch, by the rollout's `index`, followed by `MEASURES`."""
        size = self.rollout.size(index)

        def differentiate(rows: Tensor) -> Tensor:
            actor, critic = self.rollout.actor_batch(rows), self.rollout.critic_batch(rows)
            with torch.enable_grad():  # the setting belongs to a thread
                mean = outputs(self.actor.mean, actor.obs, actor.sequences)
                policy, value = self._losses(mean, actor, critic, size)
                gradient = self.optimizer.gradient(policy.total + value.total)
            return torch.cat([gradient, torch.stack([policy.surrogate, value.error, policy.kl, policy.clipped])])

        # Chunks are summed in their order, so that the bits do not depend on the number of workers.
        chunks = self._workers.split(index, self.rollout.steps if self.rollout.whole else 1)
        return torch.stack(self._workers.map(differentiate, chunks)).sum(0)

    def _losses(self, mean: Tensor, actor: ActorBatch, critic: CriticBatch, size: int) -> tuple[PolicyLoss, ValueLoss]:
        """Losses of a chunk of a minibatch of `size` transitions, in which the actor now prefers `mean` (B, A)."""
        policy = self._policy_loss(mean, self.actor.log_std, self._old_log_std, actor, size, self.config)
        value = outputs(self.critic.value, critic.obs, critic.sequences).squeeze(-1)
        return policy, self._value_loss(value, critic, size, self.config)

    def _act(self, obs: Tensor, out: Tensor) -> Tensor:
        """Write mean actions (N, A) for normalised observations (N, size) into `out`, and remember these."""
        network = self.actor.mean
        if not isinstance(network, RecurrentNetwork):
            return self._forward(network, obs, out)

        def run(chunk: tuple[Tensor, Tensor, Tensor]) -> None:
            with torch.no_grad():  # the setting belongs to a thread
                mean, hidden = network(chunk[0], chunk[1])
            chunk[1].copy_(hidden)
            chunk[2].copy_(mean)

        self._workers.map(run, list(zip(*map(self._workers.split, (obs, self._hidden, out)), strict=True)))
        return out

    def _forward(self, network: nn.Module, rows: Tensor, out: Tensor) -> Tensor:
        """Write the network's outputs for `rows` into `out`, a chunk at a time."""

        def run(chunk: tuple[Tensor, Tensor]) -> None:
            with torch.no_grad():  # the setting belongs to a thread
                chunk[1].copy_(network(chunk[0]))

        self._workers.map(run, list(zip(self._workers.split(rows), self._workers.split(out), strict=True)))
        return out

    @torch.no_grad()
    def _keep_exploring(self) -> None:
        """Hold the actions' deviation above its bound."""
        if self.config.min_std:
            self.actor.log_std.clamp_(min=math.log(self.config.min_std))

    @torch.no_grad()
    def _finish(self, measures: Tensor) -> dict[str, float]:
        """Forget the rollout, let its observations into the normalisers and fetch the measures."""
        rollout, log_std = self.rollout, self.actor.log_std
        explained = 1 - (rollout.returns - rollout.value).var() / rollout.returns.var().clamp(min=1e-12)
        extra = (log_std.exp().mean(), gaussian.entropy(log_std), explained, self.learning_rate.value)
        fetched = torch.cat([measures, torch.stack(extra)]).tolist()
        self._old_log_std.copy_(log_std)
        if self.config.critic.memory:
            rollout.critic_memory.copy_(self._critic_hidden)
        self._time = 0
        self._updates += 1
        if self.config.normalize_observations:
            for normalizer in self.normalizers.values():
                normalizer.commit()
        metrics: dict[str, float] = dict(zip(REPORTED, fetched, strict=True))
        require_finite(metrics, "a lower learning_rate or reward_scale")
        return metrics


def _standardize(advantage: Tensor) -> None:
    """Shift and scale to mean 0 and deviation 1 over all ranks, in place."""
    mean = distributed.mean_(advantage.mean())
    advantage.sub_(mean)
    advantage.div_(distributed.mean_(advantage.square().mean()).sqrt() + 1e-8)
