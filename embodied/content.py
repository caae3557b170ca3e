"""Joins the content packages beside `embodied` (`tasks`, `policies`, `sim2real`) to the registry.

Those names are generic, so another project's `tasks.py` could stand in their place; the sibling check says so
in plain words instead of failing somewhere inside.
"""

from __future__ import annotations

import functools
import importlib
from importlib.util import find_spec
from pathlib import Path

from embodied.errors import EmbodiedError
from embodied.registry import REGISTRY, Registry, join_entry_points

CONTENT = ("tasks", "policies", "sim2real")


def check_sibling(package: str) -> None:
    """Check that `import package` finds the folder beside `embodied`.

    Raises:
        EmbodiedError: names the intruder and the two ways out.
    """
    expected = Path(__file__).resolve().parent.parent / package / "__init__.py"
    spec = find_spec(package)
    found = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
    if found != expected:
        raise EmbodiedError(
            f"'{package}' should be embodied's own package {expected}, but Python finds {found or 'nothing'}: run from "
            "another folder, or use 'embodied-train' (or 'python -P -m embodied.train') from an installed package"
        )


@functools.cache
def join_content() -> Registry:
    """The registry with everything that is installed; safe to call often."""
    for package in CONTENT:
        check_sibling(package)
    importlib.import_module("tasks").register(REGISTRY)
    join_entry_points(REGISTRY)
    return REGISTRY
