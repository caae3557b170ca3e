"""From an arm's model file to a policy that reaches, in fewer than 15 lines.

    python examples/own_arm.py my_arm.urdf
    python examples/own_arm.py                  # with a small arm of ours, whose file it writes

The task is yours: `own_reach.py` is written here, to be changed. The same on the command line:

    python -m embodied.new task own_reach --robot my_arm.urdf
    python -m embodied.check own_reach.py
    python -m embodied.train own_reach.py
    python -m embodied.play own_reach.py --video own_reach.mp4
"""

import sys

from embodied.check.__main__ import main as check
from embodied.evaluate import main as evaluate
from embodied.new.__main__ import main as new
from embodied.train import main as train


def main(robot: str | None = None, *training: str) -> int:
    new(["task", "own_reach", "--kind", "arm", *(["--robot", robot] if robot else [])])
    if wrong := check(["own_reach.py"]):
        return wrong
    train(["own_reach.py", "--out", "own_reach_run", *training])
    return evaluate(["own_reach.py", "--policy", "own_reach_run", "--json", "own_reach.json"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
