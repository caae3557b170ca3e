"""Steps of a world per second of JaxMARL 0.2.0: a line `environment worlds seconds` in, a number out. Run by its own
Python."""

import functools
import sys
import time

import jax
import jaxmarl  # pyright: ignore[reportMissingImports] - of another environment

STEPS = 32  # in one compiled program, as its learners collect them


@functools.cache
def prepared(name, count):
    """Agents, a compiled rollout of random actions, and a state to begin with."""
    env = jaxmarl.make(name)

    def step(state, key):
        keys = jax.random.split(key, len(env.agents) + 1)
        actions = {
            agent: jax.vmap(env.action_space(agent).sample)(jax.random.split(one, count))
            for agent, one in zip(env.agents, keys[1:], strict=True)
        }
        obs, state, reward, _, _ = jax.vmap(env.step)(jax.random.split(keys[0], count), state, actions)
        return state, (obs, reward)

    rollout = jax.jit(lambda state, key: jax.lax.scan(step, state, jax.random.split(key, STEPS)))
    _, state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), count))
    return len(env.agents), rollout, jax.block_until_ready(rollout(state, jax.random.key(1)))[0]


for line in sys.stdin:
    name, worlds, seconds = line.split()
    agents, rollout, state = prepared(name, int(worlds))
    rollouts, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < float(seconds):
        state, _ = jax.block_until_ready(rollout(state, jax.random.key(2 + rollouts)))
        rollouts += 1
    print(int(worlds) * STEPS * rollouts / (time.perf_counter() - begin), agents, flush=True)
