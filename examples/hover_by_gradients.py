"""`swarm/hover` learned by backpropagation through time: the gradient of the return itself, through the physics.

    python -m examples.hover_by_gradients                   # two million steps

`embodied.functional` gives one environment as pure functions. A thousand of them fly under `jax.vmap`, a second at a
time under `jax.lax.scan`; `jax.grad` goes through policy, rotors and rigid bodies alike. No critic, no sampling.
"""

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import tyro
from jax import Array

import embodied
from embodied import cli
from embodied.core.episode import Transition
from embodied.env.functional import EnvState, FunctionalEnv
from embodied.evaluation.rates import wilson

Parameters = list[tuple[Array, Array]]


@dataclass(frozen=True)
class Settings:
    """How it learns."""

    steps: int = 2_000_000
    """Environment steps."""
    num_envs: int = 128
    """Environments that fly together."""
    horizon: int = 32
    """Control steps that a gradient goes through, 0.64 s; then the states are taken as given."""
    learning_rate: float = 3e-3
    """Adam's step size at the start; it falls to zero by a cosine."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the policy's hidden layers."""
    seed: int = 0
    """Of environments and policy."""
    episodes: int = 512
    """Whole episodes of the evaluation."""
    json: Path | None = None
    """File for the results."""


def initial(key: Array, sizes: tuple[int, ...]) -> Parameters:
    """Weights (inputs, outputs) and biases (outputs,) of each layer; the last layer's are near zero."""
    layers: Parameters = []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        gain = 0.01 if index == len(sizes) - 2 else 1.0
        weight = jax.random.normal(jax.random.fold_in(key, index), (inputs, outputs)) * gain / inputs**0.5
        layers.append((weight, jnp.zeros(outputs)))
    return layers


def act(parameters: Parameters, observation: Array) -> Array:
    """Actions in [-1, 1]."""
    for weight, bias in parameters[:-1]:
        observation = jax.nn.elu(observation @ weight + bias)
    weight, bias = parameters[-1]
    return jnp.tanh(observation @ weight + bias)


def flown(
    env: FunctionalEnv, parameters: Parameters, start: tuple[EnvState[Any], Array], steps: int
) -> tuple[tuple[EnvState[Any], Array], Transition]:
    """`steps` control steps of one environment from its state and observation, through one episode after another.

    Returns:
        State and observation at the end, and the transitions, stacked (steps, ...).
    """

    def step(carry: tuple[EnvState[Any], Array], _: None) -> tuple[tuple[EnvState[Any], Array], Transition]:
        state, observation = carry
        state, transition = env.step(state, act(parameters, observation))
        ended = transition.terminated | transition.truncated
        fresh, first = env.restart(state)
        following = (state, transition.observation["policy"])
        return jax.tree.map(
            lambda new, old: jnp.where(ended, new, old), (fresh, first["policy"]), following
        ), transition

    return jax.lax.scan(step, start, None, length=steps)


def train(env: FunctionalEnv, settings: Settings) -> Parameters:
    """The policy's parameters after `settings.steps`."""
    iterations = max(1, settings.steps // (settings.num_envs * settings.horizon))
    optimiser = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(settings.learning_rate, iterations))
    )
    key, own = jax.random.split(jax.random.key(settings.seed))
    parameters = initial(own, (*env.observation_shapes["policy"], *settings.hidden, *env.action_shape))

    def loss(parameters: Parameters, starts: Any) -> tuple[Array, Any]:
        ends, transitions = jax.vmap(lambda start: flown(env, parameters, start, settings.horizon))(starts)
        return -jnp.mean(transitions.reward), (ends, transitions)

    @jax.jit
    def improve(parameters: Any, memory: Any, starts: Any) -> tuple[Any, Any, Any, Array]:
        (cost, (ends, _)), gradient = jax.value_and_grad(loss, has_aux=True)(parameters, starts)
        change, memory = optimiser.update(gradient, memory)
        return optax.apply_updates(parameters, change), memory, ends, -cost

    states, observations = jax.jit(jax.vmap(env.reset))(jax.random.split(key, settings.num_envs))
    memory, starts = optimiser.init(parameters), (states, observations["policy"])
    shown = max(1, iterations // 20)
    for iteration in range(iterations):
        parameters, memory, starts, reward = improve(parameters, memory, starts)
        if iteration % shown == 0:
            done = (iteration + 1) * settings.num_envs * settings.horizon
            print(f"{done:>9,} steps: reward {float(reward):.3f} a step", flush=True)
    return parameters


def evaluate(env: FunctionalEnv, parameters: Parameters, episodes: int, seed: int = 1000) -> dict[str, float]:
    """Success at the last step, and at any step, of whole episodes from fresh reset states."""

    def episode(key: Array) -> tuple[Array, Array]:
        state, observation = env.reset(key)
        start = (state, observation["policy"])
        _, transitions = flown(env, parameters, start, env.max_episode_steps)
        last = jnp.argmax(transitions.terminated | transitions.truncated)
        within = jnp.arange(env.max_episode_steps) <= last
        return transitions.success[last], jnp.any(transitions.success & within)

    solved, once = jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(seed), episodes))
    low, high = wilson(int(solved.sum()), episodes)
    rates = {"success": float(solved.mean()), "success_low": low, "success_high": high}
    return rates | {"success_any": float(once.mean()), "episodes": float(episodes)}


def main(settings: Settings) -> dict[str, Any]:
    """Train, evaluate, print."""
    env = embodied.functional("swarm/hover", "rigid")
    begin = time.perf_counter()
    parameters = jax.block_until_ready(train(env, settings))
    seconds = time.perf_counter() - begin
    result = {
        "task": "swarm/hover",
        "algorithm": "backpropagation through time",
        "engine": "rigid",
        "steps": settings.steps,
        "num_envs": settings.num_envs,
        "horizon": settings.horizon,
        "seed": settings.seed,
        "train_seconds": seconds,
        "train_env_steps_per_second": settings.steps / seconds,
        **evaluate(env, parameters, settings.episodes),
    }
    shown = {key: cli.number(value) if isinstance(value, float) else str(value) for key, value in result.items()}
    cli.show(cli.table("swarm/hover by gradients", shown))
    cli.write_result(settings.json, cli.command_line("examples.hover_by_gradients"), result)
    return result


if __name__ == "__main__":
    main(tyro.cli(Settings))
