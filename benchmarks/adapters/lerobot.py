"""Demonstrations by `embodied.collect`, ACT by `lerobot-train` on them, judged by `lerobot-eval` in the task itself.

Needs LeRobot, which pins other versions than we do: run it with the Python of an environment that has LeRobot and
embodied's dependencies. What the folder has already is not made again.

    LEROBOT_PYTHON -m benchmarks.adapters.lerobot FOLDER --json benchmarks/results/vla/drawer-close/lerobot.json
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from embodied import cli
from embodied.adapters.lerobot.vector_env import Success
from embodied.evaluation.rates import wilson

TASK, CAMERA = "manipulation/drawer-close", "view"
SMALL_ACT = (
    # LeRobot's ACT for a processor: no weights from the network, a fifth of its parameters, a tenth of its horizon.
    "--policy.type=act", "--policy.device=cpu", "--policy.push_to_hub=false",
    "--policy.pretrained_backbone_weights=null", "--policy.chunk_size=20", "--policy.n_action_steps=10",
    "--policy.dim_model=128", "--policy.dim_feedforward=512", "--policy.n_heads=4", "--policy.n_encoder_layers=2",
    "--policy.n_vae_encoder_layers=2", "--policy.optimizer_lr=2e-4", "--policy.optimizer_lr_backbone=1e-4",
    "--batch_size=8", "--num_workers=0", "--save_freq=500", "--env_eval_freq=0", "--wandb.enable=false",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Settings of recording, training and evaluation."""

    folder: tyro.conf.Positional[Path]
    """Folder of demonstrations, checkpoints and evaluations."""
    demonstrations: int = 50
    """Episodes of the task's script."""
    steps: int = 2500
    """Of LeRobot's training."""
    episodes: int = 10
    """Whole episodes of the evaluation."""
    seed: int = 1000
    """Of the first of them; each has its own."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Record, train, evaluate, print."""
    demos, training = settings.folder / "demos", settings.folder / "act"
    if not demos.exists():
        run(sys.executable, *collecting(demos, settings))
    if not training.exists():
        run(script("lerobot-train"), *train_flags(demos, training, settings))
    policy = training / "checkpoints" / "last" / "pretrained_model"
    judged = {}
    for success in Success:
        out = settings.folder / success.value
        if not (out / "eval_info.json").exists():
            run(script("lerobot-eval"), *eval_flags(policy, out, success, settings))
        judged[success] = json.loads((out / "eval_info.json").read_text())
    result = figures(policy, judged, settings)
    cli.show(cli.table(f"{TASK} by LeRobot's ACT", {key: str(result[key]) for key in ("success", "success_any")}))
    cli.write_result(settings.json, "LEROBOT_PYTHON -m benchmarks.adapters.lerobot FOLDER --json FILE", result)


def collecting(demos: Path, settings: Settings) -> list[str]:
    """Command that records the demonstrations."""
    return [
        "-m", "embodied.collect", TASK, "--episodes", str(settings.demonstrations), "--cameras", CAMERA,
        "--out", str(demos),
    ]  # fmt: skip


def train_flags(demos: Path, training: Path, settings: Settings) -> list[str]:
    dataset = ["--dataset.repo_id=local/demos", f"--dataset.root={demos}"]
    return [*dataset, *SMALL_ACT, f"--steps={settings.steps}", f"--output_dir={training}"]


def eval_flags(policy: Path, out: Path, success: Success, settings: Settings) -> list[str]:
    return [
        f"--policy.path={policy}", "--policy.device=cpu", f"--output_dir={out}",
        "--env.discover_packages_path=embodied.adapters.lerobot", "--env.type=embodied",
        f"--env.task={TASK}", f"--env.cameras={CAMERA}", f"--env.success={success.value}", f"--seed={settings.seed}",
        f"--eval.n_episodes={settings.episodes}", f"--eval.batch_size={settings.episodes}",
    ]  # fmt: skip


def figures(policy: Path, judged: dict[Success, dict[str, Any]], settings: Settings) -> dict[str, Any]:
    """The numbers, as LeRobot wrote them, and its commands without this machine's paths."""
    solved = {success.value: told["per_task"][0]["metrics"]["successes"] for success, told in judged.items()}
    last, some = solved["last"], solved["any"]
    (low, high), (any_low, any_high) = (wilson(sum(of), len(of)) for of in (last, some))
    overall = judged[Success.LAST]["overall"]
    trained = json.loads((policy / "train_config.json").read_text())
    progress = json.loads((policy.parent / "training_state" / "training_step.json").read_text())
    here = Path("FOLDER")
    shown = here / policy.relative_to(settings.folder)
    return {
        "task": TASK,
        "library": "lerobot",
        "version": importlib.metadata.version("lerobot"),
        "algorithm": f"{trained['policy']['type']} of lerobot",
        "demonstrations": settings.demonstrations,
        "steps": progress["step"],
        "batch_size": trained["batch_size"],
        "episodes": len(last),
        "success": sum(last) / len(last),
        "success_low": low,
        "success_high": high,
        "success_any": sum(some) / len(some),
        "success_any_low": any_low,
        "success_any_high": any_high,
        "return": overall["avg_sum_reward"],
        "solved": solved,
        "seconds": overall["eval_s"],
        "commands": [
            " ".join(["python", *collecting(here / "demos", settings)]),
            " ".join(["lerobot-train", *train_flags(here / "demos", here / "act", settings)]),
            *(" ".join(["lerobot-eval", *eval_flags(shown, here / success, success, settings)]) for success in Success),
        ],
    }


def script(name: str) -> str:
    """One of LeRobot's commands, beside this Python."""
    return str(Path(sys.executable).with_name(name))


def run(*words: str) -> None:
    """Run a command to its end; this checkout is what it imports."""
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})


if __name__ == "__main__":
    main(tyro.cli(Settings))
