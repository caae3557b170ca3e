"""Steps of a world per second of JaxMARL 0.2.0: a line `environment worlds seconds` in, a number out. Run by its own
Python."""

import sys
import time

import jax
import jaxmarl  # pyright: ignore[reportMissingImports] - of another environment

STEPS = 32  # in one compiled program, as its learners collect them

for line in sys.stdin:
    name, worlds, seconds = line.split()
    env = jaxmarl.make(name)
    count = int(worlds)

    def step(carry, key, env=env, count=count):
        state = carry
        keys = jax.random.split(key, len(env.agents) + 1)
        actions = {
            agent: jax.vmap(env.action_space(agent).sample)(jax.random.split(one, count))
            for agent, one in zip(env.agents, keys[1:], strict=True)
        }
        obs, state, reward, _, _ = jax.vmap(env.step)(jax.random.split(keys[0], count), state, actions)
        return state, (obs, reward)

    @jax.jit
    def rollout(state, key, step=step):
        return jax.lax.scan(step, state, jax.random.split(key, STEPS))

    _, state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), count))
    state, _ = jax.block_until_ready(rollout(state, jax.random.key(1)))
    rollouts, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < float(seconds):
        state, _ = jax.block_until_ready(rollout(state, jax.random.key(2 + rollouts)))
        rollouts += 1
    print(count * STEPS * rollouts / (time.perf_counter() - begin), len(env.agents), flush=True)
