"""`python -m embodied.train`: train a policy on a task.

Without arguments it trains a Crazyflie to hover, on the CPU, in about a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from embodied import cli
from embodied.errors import guard
from embodied.registry import join_content
from policies.training import launch

DEFAULT_TASK = "swarm/hover"
RESUMABLE = {"steps": int, "json": Path}
"""Settings that may be given anew with --resume -> their type."""


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    registry = join_content()
    if run := cli.flag_value(words, "--resume"):
        given: dict[str, Any] = {name: cli.flag_value(words, f"--{name}") for name in RESUMABLE}
        return launch.resume(Path(run), {name: RESUMABLE[name](text) for name, text in given.items() if text})
    name = cli.named_task(words, registry, DEFAULT_TASK)
    assert name is not None
    return launch.start(launch.parse(registry.find(name), words))


if __name__ == "__main__":
    sys.exit(main())
