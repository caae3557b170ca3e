"""What cannot be written, or would replace what is read, is refused; what can be written is not."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest

from embodied.cli.outputs import check_file, check_folder, check_outputs
from embodied.errors import EmbodiedError


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("folder").mkdir()
    Path("link").symlink_to("file")
    Path("dangling").symlink_to("folder/nothing")
    os.link("file", "hard")


def accepted(check, *given) -> bool:
    try:
        check("--out", *given)
    except EmbodiedError as error:
        return re.search(r"--out '.*'", str(error)) is None
    return True


@pytest.mark.parametrize(
    "name", ["folder", ".", "", "file/a", "x" * 250, "x" * 300, "/dev/null/a", "nothing/../file/a/b"]
)
def test_what_is_no_file_is_refused(here, name):
    assert not accepted(check_file, Path(name))


@pytest.mark.parametrize("name", ["file", "a", "a/b/c", "link", "dangling", "x" * 200, "/dev/null"])
def test_files_that_can_be_written_are_accepted(here, name):
    assert accepted(check_file, Path(name), ["missing", "folder/a"])


@pytest.mark.parametrize("name", ["file", "link", "hard", "folder/../file"])
def test_a_file_that_is_read_is_refused_by_whatever_name(here, name):
    assert not accepted(check_file, Path(name), ["folder/a", "file"])


@pytest.mark.parametrize(("name", "fine"), [("folder", True), (".", True), ("a/b", True), ("file", False)])
def test_folders(here, name, fine):
    assert accepted(check_folder, Path(name)) == fine


@pytest.mark.parametrize("name", ["file/a", "link", "dangling", "x" * 256, "x" * 5000, "/dev/null"])
def test_what_is_no_folder_is_refused(here, name):
    assert not accepted(check_folder, Path(name))


@dataclasses.dataclass(frozen=True)
class Settings:
    log: str | Path = ""
    json: Path | None = None
    picture: Path | None = None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(json=Path("folder")), "--json 'folder' is a folder"),
        (Settings(log="file", json=Path("folder/../file")), "--json .* is the same file as 'file'"),
        (Settings(log=Path("link"), picture=Path("hard")), "--picture 'hard' is the same file as 'link'"),
    ],
)
def test_what_settings_say_to_write_is_looked_at(here, settings, said):
    with pytest.raises(EmbodiedError, match=said):
        check_outputs(settings)


def test_words_that_name_no_file_are_no_inputs(here):
    check_outputs(Settings(log="a.json", json=Path("a.json")))
    check_outputs(Settings(log="folder", json=Path("folder/b.json"), picture=Path("c.png")))
