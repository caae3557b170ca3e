"""The examination of a GPU: checks that need one, each of them a function of its own.

`python -m embodied.doctor --gpu` runs every check in a process of its own under a limit of time; `tests/gpu` calls the
same functions. With `REHEARSAL` they run on a CPU, on small sizes, which shows that the checks themselves work.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from embodied.bench import speed
from embodied.engines.base import sees_nvidia_gpu
from embodied.engines.mjx.engine import GraphMode
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.errors import EmbodiedError


@dataclasses.dataclass(frozen=True)
class Scale:
    """Amount of work of the checks."""

    contact_task: str
    """The articulated task with contacts that `mjx` runs."""
    num_envs: tuple[int, ...]
    """Environments at which rates are measured; the first is used where one number is enough."""
    turns: int
    """Turns of environment and bare engine in each rate."""
    steps: int
    """Control steps in a turn."""
    racing_steps: int
    """Steps of the comparison with a run that waits after each."""
    hover_steps: int | None
    """Environment steps of hover's training; None: as many as reach its figure, which is then demanded."""
    contact_steps: int
    """Environment steps of the contact task's training."""
    rehearsal: bool = False
    """Whether this is a rehearsal: nothing is demanded that a CPU cannot do."""


FULL = Scale("locomotion/go1-joystick-flat", (1024, 4096, 16384), 5, 20, 10_000, None, 4_000_000)
REHEARSAL = Scale("locomotion/hopper", (32,), 2, 3, 60, 49_152, 49_152, rehearsal=True)


class CheckError(EmbodiedError):
    """A check that found something wrong."""


class NotHereError(EmbodiedError):
    """A check that needs something this machine lacks."""


@dataclasses.dataclass(frozen=True)
class Check:
    """A named examination."""

    name: str
    what: str
    """Subject of the check, for a reader."""
    seconds: float
    """Limit."""
    run: Callable[[Scale], dict[str, Any]]
    """Returns figures; raises CheckError, or NotHereError."""


def devices(scale: Scale) -> dict[str, Any]:
    """JAX, torch and Warp compute on the GPU, and a product of matrices is right to float32's precision."""
    if not scale.rehearsal and not (sees_nvidia_gpu() and torch.cuda.is_available()):
        raise CheckError("JAX or torch sees no NVIDIA GPU; `python -m embodied.doctor` says why")
    matrix = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    exact = matrix.astype(np.float64) @ matrix.astype(np.float64)
    error = float(np.abs(np.asarray(jnp.asarray(matrix) @ jnp.asarray(matrix)) - exact).max())
    if error > 1e-3:  # TF32's is some 0.05
        raise CheckError(f"a product of 512 x 512 matrices is off by {error:.2g}: JAX multiplies in reduced precision")
    return {"jax": jax.devices()[0].device_kind, "torch_cuda": torch.version.cuda, "matmul_error": error}


def compiling(scale: Scale) -> dict[str, Any]:
    """Time from nothing to the first steps."""
    seconds = {}
    for task in ("swarm/hover", scale.contact_task):
        begun = time.perf_counter()
        env = fused(task, scale.num_envs[0])
        env.reset()
        for _ in range(2):
            env.step(zeros(env))
        speed.wait(env)
        seconds[f"{task} on {env.engine_name}"] = time.perf_counter() - begun
    return {"first_steps_seconds": seconds}


def crossing(scale: Scale) -> dict[str, Any]:
    """Observations and actions cross between JAX and torch without a copy."""
    env = fused("swarm/hover", scale.num_envs[0])
    env.reset()
    array = env.episode.steps
    tensor = torch.from_dlpack(array)
    back = jnp.from_dlpack(zeros(env))
    if tensor.data_ptr() != array.unsafe_buffer_pointer():
        raise CheckError("a JAX array becomes a torch tensor by a copy")
    if tensor.device.type != env.device.type:
        raise CheckError(f"observations of an environment on {env.device} arrive on {tensor.device}")
    return {"device": str(tensor.device), "back_on": str(next(iter(back.devices())))}


def parity(scale: Scale) -> dict[str, Any]:
    """The GPU's physics against C MuJoCo's: the same starts, the same actions, how far apart after each step."""
    worst = {}
    for task in ("swarm/hover", scale.contact_task):
        here, there = fused(task, 8), make(task, 8, "mujoco", seed=0)
        here.reset()
        there.reset()
        generator = torch.Generator().manual_seed(0)
        gaps = []
        for _ in range(5):
            action = 0.2 * torch.randn(there.action_shape, generator=generator)
            here.step(action.to(here.device))
            there.step(action)
            gaps.append(float(np.abs(np.asarray(here.world().qpos) - np.asarray(there.world().qpos)).max()))
        worst[task] = gaps
        if gaps[0] > 1e-3:  # contacts amplify later differences, as they do between two CPUs
            raise CheckError(f"{task}: {here.engine_name} and mujoco are {gaps[0]:.2g} apart after one step")
    return {"largest_joint_difference": worst}


def restarts(scale: Scale) -> dict[str, Any]:
    """Every episode begins at a state of its own, also where many end at once."""
    env = fused("swarm/hover", scale.num_envs[0])
    env.reset()
    first = np.asarray(env.world().qpos)
    env.episode_length = torch.full((env.num_envs,), env.max_episode_steps - 1)
    env.step(zeros(env))
    second = np.asarray(env.world().qpos)
    distinct = len(np.unique(np.concatenate([first, second]).round(6), axis=0))
    if distinct < 2 * env.num_envs:
        raise CheckError(f"{2 * env.num_envs} episodes began at {distinct} different states")
    return {"episodes": 2 * env.num_envs, "different_starts": distinct}


def racing(scale: Scale) -> dict[str, Any]:
    """Steps that are not waited for give the same results as steps that are: no buffer is read too early."""
    ends, seconds = [], []
    for waits in (True, False):
        env = fused("swarm/hover", 256)
        obs = env.reset()
        total = torch.zeros((), device=env.device)
        begun = time.perf_counter()
        for _ in range(scale.racing_steps):
            step = env.step(torch.tanh(obs["policy"][:, : env.action_size]))
            obs, total = step.obs, total + step.reward.sum()
            if waits:
                speed.wait(env)
        ends.append((obs["policy"].cpu().numpy().copy(), float(total)))
        seconds.append(time.perf_counter() - begun)
    if not np.array_equal(ends[0][0], ends[1][0]) or ends[0][1] != ends[1][1]:
        gap = float(np.abs(ends[0][0] - ends[1][0]).max())
        raise CheckError(f"after {scale.racing_steps} steps a run that waits and one that does not are {gap:.2g} apart")
    return {"steps": scale.racing_steps, "seconds_waiting": seconds[0], "seconds_racing": seconds[1]}


def hover_rates(scale: Scale) -> dict[str, Any]:
    return rates("swarm/hover", scale)


def contact_rates(scale: Scale) -> dict[str, Any]:
    return rates(scale.contact_task, scale)


def rates(task: str, scale: Scale) -> dict[str, Any]:
    """Steps per second of the environment and of its bare engine, and the memory they take."""
    found = []
    for num_envs in scale.num_envs:
        env = fused(task, num_envs)
        actions = 0.2 * torch.randn(env.action_shape, device=env.device)
        rate = speed.measure(
            env, lambda obs, drawn=actions: drawn, turns=scale.turns, steps=scale.steps, on_turn=lambda *_: None
        )
        found.append({"num_envs": num_envs, **rate, **memory()})
        env.close()
    return {"task": task, "rates": found}


def memory() -> dict[str, float | None]:
    """The most bytes of the device that JAX and torch have held in this process; None where it is not counted."""
    counted = jax.devices()[0].memory_stats() or {}
    torch_peak = float(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else None
    return {"jax_peak_bytes": counted.get("peak_bytes_in_use"), "torch_peak_bytes": torch_peak}


def iteration(scale: Scale) -> dict[str, Any]:
    """Times of a training iteration's parts, of hover and the contact task, from the metrics of a short training."""
    split = {}
    for task, steps in (("swarm/hover", 20), (scale.contact_task, 10)):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            count = scale.num_envs[0] * 24 * steps
            train(task, out, "--num-envs", str(scale.num_envs[0]), "--steps", str(count))
            rows = metrics(out)
        later = rows[len(rows) // 2 :]
        split[task] = {
            key: statistics.median(row[key] for row in later)
            for key in ("collect_seconds", "update_seconds", "env_steps_per_second")
        }
    return {"medians": split}


def graph_modes(scale: Scale) -> dict[str, Any]:
    """Rates of the contact task under each way in which Warp's kernels become CUDA graphs."""
    if scale.rehearsal or not sees_nvidia_gpu():
        raise NotHereError("graph modes exist on an NVIDIA GPU only")
    found: dict[str, float | str] = {}
    for mode in GraphMode:
        # In a process of its own: a mode that this driver cannot do may end it without a message, which is a result.
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            try:
                found[mode] = process.submit(graph_mode_rate, mode, scale).result()
            except Exception as error:
                found[mode] = f"{type(error).__name__}: {error}".splitlines()[0]
    return {"env_steps_per_second": found}


def graph_mode_rate(mode: GraphMode, scale: Scale) -> float:
    """Steps per second of 4,096 environments of the contact task."""
    env = make(scale.contact_task, 4096, "mjx", engine_options={"impl": "warp", "graph_mode": mode})
    act = zeros(env)
    rate = speed.measure(env, lambda obs: act, turns=3, steps=scale.steps, on_turn=lambda *_: None)
    return rate["env_steps_per_second"]


def cameras(scale: Scale) -> dict[str, Any]:
    """Pictures of all environments per second, drawn by Warp's ray caster."""
    found = []
    for num_envs in scale.num_envs[:2]:
        env = make("manipulation/reach", num_envs, cameras=("view",), resolution=64)
        pixels, seconds = env.reset()["pixels/view"], []
        for _ in range(3 + scale.steps):
            begun = time.perf_counter()
            pixels = env.step(zeros(env)).obs["pixels/view"]
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begun)
        if not float(pixels.float().std()):
            raise CheckError("the pictures of camera 'view' show one colour only")
        found.append({"num_envs": num_envs, "pictures_per_second": num_envs / statistics.median(seconds[3:])})
        env.close()
    return {"resolution": 64, "rates": found}


def hover_training(scale: Scale) -> dict[str, Any]:
    """Hover's default training, to its figure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        steps = [] if scale.hover_steps is None else ["--steps", str(scale.hover_steps)]
        train("swarm/hover", Path(folder) / "run", "--json", str(path), *steps)
        result = json.loads(path.read_text())
    if scale.hover_steps is None and result["success"] < 0.95:
        raise CheckError(f"hover succeeds in {100 * result['success']:.1f} % of episodes at the last step; expected 95")
    return {key: result[key] for key in ("steps", "success", "success_any", "train_seconds", "engine", "num_envs")}


def contact_training(scale: Scale) -> dict[str, Any]:
    """The contact task's training for some of its steps: it learns, and how fast."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        train(scale.contact_task, out, "--steps", str(scale.contact_steps), "--num-envs", str(scale.num_envs[-2:][0]))
        rows = metrics(out)
    returns = [row["return"] for row in rows if row.get("return") is not None]
    if not scale.rehearsal and returns[-1] <= returns[0]:
        raise CheckError(f"{scale.contact_task} did not learn: returns {returns[0]:.3g} to {returns[-1]:.3g}")
    return {"steps": rows[-1]["step"], "returns": returns[:: max(1, len(returns) // 10)]}


def killing(scale: Scale) -> dict[str, Any]:
    """A training that is killed goes on from its last checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = ["swarm/hover", "--out", str(out), "--steps", "400000", "--checkpoint-seconds", "0.5"]
        process = subprocess.Popen(module("embodied.train", *words), stderr=subprocess.DEVNULL, env=quiet())
        deadline = time.monotonic() + 90
        while not list(out.glob("checkpoints/*")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        finish("a killed training does not go on", "embodied.train", "--resume", str(out))
        return {"steps": metrics(out)[-1]["step"]}


def two_gpus(scale: Scale) -> dict[str, Any]:
    """Two ranks, each on a GPU of its own."""
    if torch.cuda.device_count() < 2 and not scale.rehearsal:
        raise NotHereError(f"there are {torch.cuda.device_count()} GPUs")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        words = ["--nproc-per-node", "2", "-m", "embodied.train", "swarm/hover", "--steps", "98304"]
        words += ["--out", str(Path(folder) / "run"), "--json", str(path)]
        finish("two ranks do not train", "torch.distributed.run", *words)
        return {"train_seconds": json.loads(path.read_text())["train_seconds"]}


CHECKS = (
    Check("devices", "JAX and torch compute on the GPU, in full precision", 60, devices),
    Check("compiling", "time from nothing to the first steps", 240, compiling),
    Check("crossing", "no copies between JAX and torch", 60, crossing),
    Check("parity", "physics against C MuJoCo", 180, parity),
    Check("restarts", "fresh starts for every episode", 60, restarts),
    Check("hover_rates", "steps per second of drones, engine and environment", 90, hover_rates),
    Check("contact_rates", "steps per second with contacts, engine and environment", 240, contact_rates),
    Check("hover_training", "hover learns to its figure", 90, hover_training),
    Check("iteration", "collecting and updating in a training iteration", 90, iteration),
    Check("racing", "steps that nobody waits for, against steps that are waited for", 120, racing),
    Check("graph_modes", "Warp's kernels as CUDA graphs", 240, graph_modes),
    Check("cameras", "pictures per second", 120, cameras),
    Check("killing", "a killed training goes on", 120, killing),
    Check("two_gpus", "two ranks train together", 90, two_gpus),
    Check("contact_training", "a robot with contacts learns", 240, contact_training),
)


def fused(task: str, num_envs: int) -> Env:
    """Environments on the fused engine that a GPU would run them on."""
    return make(task, num_envs, "rigid" if task.startswith("swarm/") else "mjx", seed=0)


def zeros(env: Env) -> torch.Tensor:
    """Actions that do nothing."""
    return torch.zeros(env.action_shape, device=env.device)


def train(task: str, out: Path, *words: str) -> None:
    """Train in a process of its own."""
    finish(f"training {task} failed", "embodied.train", task, "--out", str(out), *words)


def finish(otherwise: str, name: str, *words: str) -> None:
    """Run `python -m name` to its end.

    Raises:
        CheckError: it failed; says `otherwise`, with its last line.
    """
    done = subprocess.run(module(name, *words), capture_output=True, text=True, env=quiet())
    if done.returncode:
        raise CheckError(f"{otherwise}: {last_line(done.stderr)}")


def module(name: str, *words: str) -> list[str]:
    """The command line of `python -m name`."""
    return [sys.executable, "-m", name, *words]


def quiet() -> dict[str, str]:
    """Variables of a child."""
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def last_line(text: str) -> str:
    """Last line of a program's output, without the frame around it."""
    return next(
        (line.strip() for line in reversed(text.splitlines()) if any(map(str.isalnum, line))), "it said nothing"
    )
