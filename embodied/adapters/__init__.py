"""Environments in the shapes other libraries expect. Each library is imported only when its adapter is used.

gymnasium               `GymnasiumVectorEnv`, `GymnasiumEnv`, `register_gymnasium`
gymnasium_functional    `FunctionalGymnasiumEnv`
pettingzoo              `parallel_env`, `PettingZooEnv`
stable_baselines3       `SB3VecEnv`
rsl_rl                  `RslRlVecEnv`
skrl                    `SkrlEnv`
torchrl                 `TorchRLEnv`
brax                    `BraxEnv`, `wrap`
lerobot/                `--env.type=embodied` of LeRobot's commands

For all of them:

- An adapter takes over the `Env` of `embodied.make` that it is given: nothing else may step it, and `close` closes it.
- `group` or `groups` are the observation groups to show. One that the task does not have is an `UnknownNameError`, and
  so is a render mode other than `rgb_array`.
- PettingZoo takes tasks with agents. The others take a single agent, which they show without its axis; more are an
  `EmbodiedError`.
- Actions lie in [-1, 1]; what lies outside is clipped.
"""
