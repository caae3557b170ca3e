"""Files that a command is to write are looked at before its work."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from embodied.cli.outputs import check_outputs
from embodied.errors import EmbodiedError


@dataclasses.dataclass(frozen=True)
class Settings:
    log: str = ""
    model: Path | None = None
    json: Path | None = None
    picture: Path | None = None
    out: Path | None = None


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.csv").write_text("1")
    (tmp_path / "link.csv").symlink_to("a.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(json=Path("folder")), "--json 'folder' is a folder; expected a file"),
        (Settings(picture=Path("a.csv/x.png")), "--picture 'a.csv/x.png': '.*a.csv' is no folder"),
        (Settings(json=Path("new/" + "x" * 300)), "--json 'new/x+': File name too long"),
        (Settings(log="a.csv", json=Path("folder/../a.csv")), "--json .* is a file that this command reads"),
        (Settings(log="a.csv", out=Path("link.csv")), "--out 'link.csv' is a file that this command reads"),
        (Settings(model=Path("link.csv"), json=Path("a.csv")), "--json 'a.csv' is a file that this command reads"),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_cannot_be_written_or_would_replace_its_input_is_refused(settings: Settings, said: str) -> None:
    with pytest.raises(EmbodiedError, match=said):
        check_outputs(settings)


def test_all_else_is_left_to_those_who_write(here: Path) -> None:
    for path in ("new/deeper/x.json", "b.csv", os.devnull):
        check_outputs(Settings(log="a.csv", json=Path(path), out=Path("folder")))
    assert sorted(path.name for path in here.iterdir()) == ["a.csv", "folder", "link.csv"]
