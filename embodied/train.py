"""`python -m embodied.train`: train a policy on a task.

Without arguments it trains a Crazyflie to hover, on the CPU, in about a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied import cli
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, guard
from embodied.storage import trust
from policies.training import command_line

if TYPE_CHECKING:
    from policies.training.launch import train_policy as train_policy

DEFAULT_TASK = "swarm/hover"
RESUMABLE = {"steps": int, "json": Path, "watch": bool}
"""Settings that may be given anew with --resume -> their type; a bool's flag has no value."""


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    registry = join_content()
    if not cli.asks_for_help(words) and (run := cli.flag_value(words, "--resume")):
        changes = resume_changes(words)
        from policies.training import launch  # with torch and JAX, which help and mistakes in flags do without

        launch.resume(Path(run), changes)
        return 0
    file = cli.flag_value(words, "--config-file")
    default = DEFAULT_TASK if file is None else command_line.read(Path(file)).task
    name = cli.named_task(words, registry, default or DEFAULT_TASK)
    assert name is not None
    settings = command_line.parse(registry.find(name), words)
    from policies.training import launch
    from policies.training.seeds import train_seeds

    if settings.seeds:
        return train_seeds(settings, cli.command_line("embodied.train"))
    launch.start(settings)
    return 0


def resume_changes(words: list[str]) -> dict[str, Any]:
    """Changes of the run's own settings by a command line with --resume.

    Raises:
        EmbodiedError: a flag that may not be given anew, a word that belongs to none, or a value of the wrong type.
    """
    known, rest, changes = {"resume": str, **RESUMABLE}, trust.typed(words), {}
    while rest:
        flag, equals, text = rest.pop(0).partition("=")
        name = flag.removeprefix("--")
        if not flag.startswith("--") or name not in known:
            raise EmbodiedError(
                f"{flag!r} cannot be given with --resume, which goes on by the run's own settings; "
                f"beside it: {', '.join(f'--{name}' for name in RESUMABLE)}"
            )
        if known[name] is bool:
            changes[name] = True
            continue
        text = text if equals or not rest else rest.pop(0)
        try:
            changes[name] = known[name](text)
        except ValueError:
            raise EmbodiedError(f"{flag} {text}: expected a whole number") from None
    del changes["resume"]
    return changes


if __name__ == "__main__":
    sys.exit(main())
