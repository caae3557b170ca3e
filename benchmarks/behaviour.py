"""Behaviour of the program, as numbers to compare before and after a refactoring.

Short seeded trainings of several learners, as the sha256 of the final policy's tensors, and evaluations of every
shipped policy (64 episodes, one seed). All runs through the command line, so the script outlives what lies behind it:

    python -m benchmarks.behaviour --out before.json                          (in a checkout of the earlier commit)
    python -m benchmarks.behaviour --out after.json --against before.json \\
        --json benchmarks/results/package/behaviour.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from embodied import cli

ROOT = Path(__file__).resolve().parent.parent
SEED = 7
DRAWER = "manipulation/drawer-close --num-envs 8 --steps 800"
TRAININGS = {
    "ppo swarm/hover rigid": "swarm/hover --engine rigid --num-envs 256 --steps 300000",
    "ppo go1-joystick-flat mujoco": "locomotion/go1-joystick-flat --engine mujoco --num-envs 256 --steps 150000",
    "ppo swarm/formation (a team)": "swarm/formation --num-envs 64 --steps 30000",
    "ppo formation, adversaries": "swarm/formation --adversaries 1 --against shipped --num-envs 64 --steps 15000",
    "ppo mt10 (a suite)": "mt10 --num-envs 40 --steps 8000",
    "ppo reach-walker (bodies of many forms)": "reach-walker --num-envs 48 --steps 10000",
    "sac hover": "swarm/hover --engine rigid --algorithm sac --num-envs 64 --steps 20000",
    "td3 hover": "swarm/hover --engine rigid --algorithm td3 --num-envs 64 --steps 20000",
    "bc drawer-close": "manipulation/drawer-close --algorithm bc --bc.demonstrations {demos} --num-envs 16 --steps 300",
    "rlpd drawer-close": f"{DRAWER} --algorithm rlpd --rlpd.demonstrations {{demos}} --rlpd.buffer-size 20000",
    "awac drawer-close": f"{DRAWER} --algorithm awac --awac.demonstrations {{demos}} --awac.offline-updates 200"
    " --awac.buffer-size 20000",
    "svea reach": "manipulation/reach --algorithm svea --cameras view --resolution 32 --num-envs 8 --steps 400",
}  # fmt: skip


def run(command: list[str], timeout: float) -> tuple[int, str]:
    """Exit code and the last lines printed."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return 124, "timeout"
    return done.returncode, (done.stdout + done.stderr)[-400:]


def policy_digest(run_folder: Path) -> str:
    """sha256 over the policy's tensors of the last checkpoint, whatever their names: values and shapes only."""
    last = max((run_folder / "checkpoints").iterdir(), key=lambda path: int(path.name))
    tensors = load_file(last / "state.safetensors")
    own = [value for name, value in tensors.items() if name.startswith("policy/")]
    digests = sorted(hashlib.sha256(repr(value.shape).encode() + value.tobytes()).hexdigest() for value in own)
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def train(words: str, folder: Path, demos: Path) -> str:
    """Digest of the policy that a training ends with, or what went wrong."""
    out = folder / hashlib.sha256(words.encode()).hexdigest()[:8]
    seeded = [*words.format(demos=demos).split(), "--seed", str(SEED), "--evaluate-episodes", "0", "--out", str(out)]
    code, said = run(["embodied.train", *seeded], 900)
    return policy_digest(out) if code == 0 else f"exit {code}: {said}"


def evaluate(task: str, folder: Path) -> dict[str, float] | str:
    """Every number that evaluating a shipped policy gives, speeds left out, or what went wrong."""
    out = folder / (task.replace("/", "-") + ".json")
    few = "4" if task == "mt10" else "64"
    words = ["--policy", "shipped", "--episodes", few, "--seed", str(SEED), "--json", str(out)]
    page = ["--html", str(out.with_suffix(".html"))] if task == "mt10" else []
    code, said = run(["embodied.evaluate", task, *words, *page], 900)
    return numbers(json.loads(out.read_text())) if code == 0 else f"exit {code}: {said}"


def numbers(value: Any, name: str = "") -> dict[str, float]:
    """The leaves of a result that are numbers and not times or speeds."""
    if isinstance(value, dict):
        parts = [numbers(inner, f"{name}/{key}") for key, inner in value.items() if key not in ("hardware", "commit")]
    elif isinstance(value, list):
        parts = [numbers(inner, f"{name}/{index}") for index, inner in enumerate(value)]
    else:
        timed = "second" in name or "time" in name or "fraction" in name
        return {} if timed or isinstance(value, str | bool) or value is None else {name.lstrip("/"): float(value)}
    return {key: number for part in parts for key, number in part.items()}


def main() -> int:
    """Record, and compare where requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--against", type=Path, help="the results before")
    parser.add_argument("--before", default="", help="commit of the results before, for the record")
    parser.add_argument("--json", type=Path, help="record of the comparison")
    parser.add_argument("--only", default="", help="names that contain this")
    given = parser.parse_args()
    shipped = sorted(
        path.parent.relative_to(ROOT / "assets/policies") for path in ROOT.glob("assets/policies/**/state.json")
    )
    results: dict[str, object] = json.loads(given.out.read_text()) if given.out.exists() else {}

    def note(name: str, found: object, began: float) -> None:
        results[name] = found
        print(f"{time.monotonic() - began:6.1f} s  {name}: {str(found)[:150]}", flush=True)
        given.out.write_text(json.dumps(results, indent=1))

    with tempfile.TemporaryDirectory() as place:
        folder, demos = Path(place), Path(place) / "demos.safetensors"
        began = time.monotonic()
        code, said = run(
            ["policies.demonstrations", "manipulation/drawer-close", "--episodes", "16", "--out", str(demos)], 600
        )
        print(f"{time.monotonic() - began:6.1f} s  demonstrations: exit {code} {said if code else ''}", flush=True)
        for name, words in TRAININGS.items():
            if given.only in name and f"train {name}" not in results:
                began = time.monotonic()
                note(f"train {name}", train(words, folder, demos), began)
        for task in shipped:
            if given.only in str(task) and f"evaluate {task}" not in results:
                began = time.monotonic()
                note(f"evaluate {task}", evaluate(str(task), folder), began)
    if given.against:
        before = json.loads(given.against.read_text())
        compared = [name for name in results if name in before]
        differs = [name for name in compared if results[name] != before[name]]
        print(
            f"{len(compared) - len(differs)} of {len(compared)} equal"
            + "".join(f"\n  differs: {name}" for name in differs)
        )
        counts = {"before_commit": given.before, "compared": len(compared), "equal": len(compared) - len(differs)}
        values = {"differs": differs, "before": before, "after": results}
        cli.write_result(given.json, cli.command_line("benchmarks.behaviour"), counts | values)
        return bool(differs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
