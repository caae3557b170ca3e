"""Where assets lie: in the checkout's `assets/`, else in the installed package."""

from __future__ import annotations

from pathlib import Path

from embodied.errors import ModelError

_PACKAGE = Path(__file__).resolve().parent.parent
_CANDIDATES = (_PACKAGE.parent / "assets", _PACKAGE / "assets")


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
