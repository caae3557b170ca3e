"""The distribution that LeRobot finds by its name; LeRobot itself is not needed to look at it."""

import tomllib
from pathlib import Path

import embodied

PLUGIN = Path(embodied.__file__).parent / "adapters" / "lerobot" / "plugin"


def test_the_plug_in_is_what_lerobot_looks_for() -> None:
    """The distribution has the prefix that LeRobot wants, and the module that it then imports is the one packed."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())
    name = project["project"]["name"]
    assert name.startswith("lerobot_env_")
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["include"] == [f"{name}.py"]
    assert (PLUGIN / f"{name}.py").is_file()
