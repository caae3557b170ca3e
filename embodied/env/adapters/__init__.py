"""Environments in the shapes other libraries expect. Each library is imported only when its adapter is used.

gymnasium               `GymnasiumVectorEnv`, `GymnasiumEnv`, `register_gymnasium`
gymnasium_functional    `FunctionalGymnasiumEnv`
pettingzoo              `parallel_env`, `PettingZooEnv`
stable_baselines3       `SB3VecEnv`
rsl_rl                  `RslRlVecEnv`
skrl                    `SkrlEnv`
torchrl                 `TorchRLEnv`
brax                    `BraxEnv`, `wrap`

What holds for all of them: an adapter takes over the `Env` of `embodied.make` that it is given, nothing else may step
it, and `close` closes it. `group` or `groups` are the observation groups to show; one that the task does not have is an
`UnknownNameError`, and so is a render mode other than `rgb_array`. PettingZoo takes tasks with agents; the others take
a single agent, which they show without its axis, and raise an `EmbodiedError` for more. Actions lie in [-1, 1], and
what lies outside is clipped.
"""
