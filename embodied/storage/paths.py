"""Paths of assets: in the checkout's `assets/`, else in the installed package; and the policies among them."""

from __future__ import annotations

from pathlib import Path

from embodied.errors import ModelError

_PACKAGE = Path(__file__).resolve().parent.parent
_CANDIDATES = (_PACKAGE.parent / "assets", _PACKAGE / "assets")
STATE = "state.json"
"""The file by which a folder is known as a checkpoint."""


def asset_roots() -> tuple[Path, ...]:
    """The folders in which assets are looked for, first match first."""
    return tuple(root for root in _CANDIDATES if root.is_dir())


def asset(name: str) -> Path:
    """The path of an asset, e.g. `asset("robots/go1/go1.xml")`.

    Raises:
        ModelError: no such asset; lists what its folder holds.
    """
    for root in _CANDIDATES:
        if (root / name).exists():
            return root / name
    folders = [(root / name).parent for root in _CANDIDATES if (root / name).parent.is_dir()]
    known = sorted(path.name for folder in folders for path in folder.iterdir())
    raise ModelError(f"no asset {name!r}; its folder holds {known or 'nothing, or does not exist'}")


def shipped() -> dict[str, Path]:
    """Task or suite -> folder of every policy that comes with the package."""
    found: dict[str, Path] = {}
    for root in asset_roots():
        for state in (root / "policies").rglob(STATE):
            found.setdefault(state.parent.relative_to(root / "policies").as_posix(), state.parent)
    return dict(sorted(found.items()))
