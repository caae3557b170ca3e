"""Our tasks for `lerobot-eval` and `lerobot-train`, under `--env.type=embodied`.

vector_env      `LeRobotVectorEnv`: many environments of one task, as LeRobot's rollouts need them; needs no LeRobot
config          `EmbodiedEnvConfig`: the flags `--env.*`; importing it registers it with LeRobot
plugin/         a distribution whose name LeRobot looks for: where it is installed, LeRobot imports `config` by itself

Without that distribution LeRobot imports this package by `--env.discover_packages_path=embodied.adapters.lerobot`.
"""
