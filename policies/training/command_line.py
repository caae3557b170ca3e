"""The command line of a training, whose flags depend on task and algorithm, and the file of settings that it may name.

That is a run's own `config.json`, or a JSON or TOML file with some of its keys.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied import cli
from embodied.env.options import NoConfig
from embodied.env.registry import Suite, TaskEntry
from embodied.errors import EmbodiedError, closest, listing, reason
from embodied.storage import trust
from embodied.storage.configs import UNSAVED, from_json, override, places, to_json
from embodied.storage.files import read_file, read_json
from policies.registry import DEFAULT
from policies.training.settings import SAID, Settings, default_settings, settings_type

TOML = ".toml"


def parse(entry: TaskEntry | Suite, words: Sequence[str]) -> Settings[Any, Any]:
    """Parse a command line whose flags are the fields of this task's and this algorithm's configs.

    Without a file of settings, a short help is answered, and what is wrong in any case refused, before the task is
    loaded, and JAX with it, and mostly before torch. Flags that begin with `--config.`, `--help-all`, tasks of several
    drones, whose defaults count observations, and configs of other algorithms than PPO load them all the same.

    Raises:
        EmbodiedError: no such algorithm, a flag that neither the task nor the algorithm can have, a wrong value,
            or both --seed and --seeds.
    """
    algorithm, file = cli.flag_value(words, "--algorithm"), cli.flag_value(words, "--config-file")
    if file is None:
        early = default_settings(entry, algorithm or DEFAULT, NoConfig())
        cli.answer_early(settings_type(early), words, "train", early, later="--config")
        defaults = default_settings(entry, algorithm or DEFAULT)
    else:
        defaults = read(Path(file)).settings(entry, algorithm)
    if (begin := cli.flag_value(words, "--start-from")) is not None:
        defaults = begun_from(defaults, begin)
    settings = cli.parse(settings_type(defaults), words, "train", defaults)
    if settings.seeds and cli.flag_value(words, "--seed") is not None:
        raise EmbodiedError(
            f"--seed {settings.seed} and --seeds {' '.join(map(str, settings.seeds))}; expected one of them"
        )
    return dataclasses.replace(settings, task=entry.name)


def begun_from(settings: Settings[Any, Any], policy: str) -> Settings[Any, Any]:
    """Settings with robot, options, trials and cameras with which a policy learned that a training begins with."""
    from policies.training.loading import with_needs  # with torch and JAX

    return with_needs(settings, policy)


@dataclasses.dataclass(frozen=True)
class ConfigFile:
    """Settings of a training in a file."""

    path: Path
    task: str | None
    """None: the file leaves it to the command line."""
    values: Mapping[str, Any]
    """Settings by their names in a run's config; those that are missing keep their defaults."""

    @property
    def algorithm(self) -> str | None:
        """The algorithm, where the file names one."""
        return self.values.get("algorithm")

    def settings(self, entry: TaskEntry | Suite, algorithm: str | None = None) -> Settings[Any, Any]:
        """The settings for a task or suite. The file's options are left out for another algorithm.

        Raises:
            EmbodiedError: the file has unknown keys, or values that are refused.
        """
        chosen = algorithm or self.algorithm or DEFAULT
        defaults = default_settings(entry, chosen)
        known = places(defaults)
        if unknown := sorted(name for name in self.values if name not in known or name in UNSAVED):
            saved = [name for name in known if name not in UNSAVED]
            guesses = closest(unknown[0], saved)
            hint = f"; did you mean {guesses[0]!r}?" if guesses else f"; known: {listing(sorted(saved), len(saved))}"
            raise EmbodiedError(f"{self.path} has the unknown keys {listing(unknown)}{hint}")
        found: dict[str, Any] = {}
        for name, value in self.values.items():
            if name == "algorithm" or (name == "algorithm_config" and chosen != (self.algorithm or DEFAULT)):
                continue
            place = known[name]
            try:
                found[name] = from_json(place.kind, _over(to_json(place.value), value), f"{self.path}: {name}")
            except (TypeError, ValueError) as error:
                raise EmbodiedError(f"{self.path}: {name} is {value!r}; {reason(error)}") from None
        settings = override(defaults, found)
        wrappers = settings.wrappers.mapped(lambda wrapper: wrapper.kept(self.path.parent))
        return dataclasses.replace(settings, wrappers=wrappers)


def read(path: Path) -> ConfigFile:
    """Read a file.

    Raises:
        EmbodiedError: it cannot be read, or holds no settings.
    """
    try:
        document = tomllib.loads(read_file(path).decode()) if path.suffix == TOML else read_json(path)
    except RecursionError:
        raise EmbodiedError(f"--config-file {path} cannot be read: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise EmbodiedError(f"--config-file {path} cannot be read: {reason(error)}") from error
    trust.named(document)
    if not isinstance(document, Mapping):
        raise EmbodiedError(f"--config-file {path}: expected an object of settings, such as a run's config.json")
    of_run = "format" in document and isinstance(document.get("config"), Mapping)
    values = {name: value for name, value in (document["config"] if of_run else document).items() if name not in SAID}
    task = document.get("task") if of_run else values.get("task")
    values.pop("task", None)
    if of_run:
        values.pop("name", None)  # which is that run's own
    if task is not None and not isinstance(task, str):
        raise EmbodiedError(f"--config-file {path}: its task is {task!r}; expected a name")
    return ConfigFile(path, None if task is None else trust.found_in(path.parent, task), values)


def _over(default: Any, value: Any) -> Any:
    """`value`, and what it leaves out of a nested object as the default has it."""
    if not (isinstance(default, Mapping) and isinstance(value, Mapping)):
        return value
    return {**default, **{name: _over(default.get(name), own) for name, own in value.items()}}
