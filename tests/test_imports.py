"""Importing `embodied`: importing it is quick, and a foreign `tasks` is named."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import jax
import pytest

from embodied.env import registry
from embodied.env.registry import Registry, TaskEntry, join_entry_points
from embodied.errors import EmbodiedError, UnknownNameError
from tests.kit.commands import HEAVY, interpreted


def test_importing_embodied_configures_jax_and_loads_neither_it_nor_torch() -> None:
    """JAX reads its variables when it is imported, which in these tests was after `embodied`."""
    name = "JAX_DEFAULT_MATMUL_PRECISION"
    code = f"""
import os, sys
os.environ.pop({name!r}, None)
import embodied
print(sorted({set(HEAVY)!r} & set(sys.modules)), os.environ[{name!r}])
"""
    assert interpreted("-c", code).stdout == "[] highest\n"
    assert jax.config.jax_default_matmul_precision == "highest"  # pyright: ignore[reportAttributeAccessIssue]


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    import embodied

    with pytest.raises(AttributeError, match="'embodied' has no attribute 'mkae'"):
        embodied.mkae  # noqa: B018


def test_a_foreign_tasks_module_is_named_with_the_ways_out(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("raise RuntimeError('this must not run')\n")
    code = "from embodied.env.registry import join_content; join_content()"
    error = interpreted("-c", code, cwd=tmp_path).stderr.splitlines()[-1]
    assert error.startswith("embodied.errors.EmbodiedError: 'tasks' should be embodied's own package")
    assert str(tmp_path / "tasks.py") in error
    assert "'embodied'" in error
    assert "python -P -m embodied" in error


def entry(name: str = "family/task", target: str = "module:Task") -> TaskEntry:
    return TaskEntry(name=name, target=target, summary="A task.", engines=("rigid",))


def test_an_unknown_task_suggests_and_lists() -> None:
    tasks = Registry()
    tasks.register(entry("manipulation/pick-place"))
    tasks.register(entry("swarm/hover"))
    with pytest.raises(UnknownNameError, match="unknown task 'manipulation/pick-plce'; did you mean 'manipulation/"):
        tasks["manipulation/pick-plce"]
    with pytest.raises(UnknownNameError, match="did you mean 'swarm/hover'"):
        tasks["hover"]
    with pytest.raises(UnknownNameError, match=r"known: manipulation/pick-place, swarm/hover$"):
        tasks["xyz"]


def test_a_name_can_be_registered_once() -> None:
    tasks = Registry()
    tasks.register(entry())
    tasks.register(entry())  # the same entry again says nothing new
    with pytest.raises(EmbodiedError, match="'family/task' is registered twice: by module:Task and by other:Task"):
        tasks.register(entry(target="other:Task"))
    assert list(tasks) == ["family/task"]
    assert len(tasks) == 1
    assert "family/task" in tasks


@pytest.mark.parametrize("name", ["task", "/task", "family/", ""])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(EmbodiedError, match="is not of the form 'family/name'"):
        Registry().register(entry(name))


@pytest.mark.parametrize("target", ["no_such_module:Task", "embodied.core.task:NoSuchTask"])
def test_a_target_that_cannot_be_imported_is_named(target: str) -> None:
    with pytest.raises(EmbodiedError, match=f"'family/task' is registered as '{target}', which cannot be imported"):
        entry(target=target).load()


def test_a_plug_in_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("lab", "tests.test_imports:register_lab", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    tasks = Registry()
    join_entry_points(tasks)
    assert "lab/task" in tasks


def register_lab(tasks: Registry) -> None:
    tasks.register(entry("lab/task"))


def register_broken(tasks: Registry) -> None:
    raise ValueError("no such robot")


@pytest.mark.parametrize("value", ["tests.test_imports:register_broken", "no_such_module:register"])
def test_a_failing_plug_in_raises(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("lab", value, registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    with pytest.raises(EmbodiedError, match=rf"the plug-in 'lab' \({value}\) failed to register its tasks: "):
        join_entry_points(Registry())
