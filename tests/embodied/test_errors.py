import errno
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from embodied import errors
from embodied.errors import EmbodiedError, UnknownNameError, closest, guard, listing

ROOT = Path(errors.__file__).parents[1]
TASKS = ["manipulation/pick-place", "manipulation/reach", "swarm/hover"]


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        (
            "pick-plce",
            TASKS,
            "unknown task 'pick-plce'; did you mean 'manipulation/pick-place'? "
            "known: manipulation/pick-place, manipulation/reach, swarm/hover",
        ),
        ("Swarm/Hover", ["swarm/hover"], "unknown task 'Swarm/Hover'; did you mean 'swarm/hover'? known: swarm/hover"),
        ("zzz", ["swarm/hover"], "unknown task 'zzz'; known: swarm/hover"),
        ("zzz", [], "unknown task 'zzz'; no task is registered"),
        ("hover1", ["hover-a", "hover-b"], "unknown task 'hover1'; did you mean 'hover-a' or 'hover-b'?"),
        ("new\nline", ["a"], r"unknown task 'new\nline'; known: a"),
    ],
)
def test_unknown_name_says_what_was_meant_and_what_exists(name, known, message):
    assert str(UnknownNameError("task", name, known)).startswith(message)


def test_long_listings_are_counted():
    error = UnknownNameError("task", "?", (f"t{i:02d}" for i in range(50)))
    assert str(error).endswith("t00, t01, t02, t03, t04, t05, t06, t07, t08, t09, t10, t11 and 38 more")
    assert len(error.known) == 50
    assert listing([]) == ""
    assert listing([3, 1], limit=1) == "3 and 1 more"


def test_no_guess_is_better_than_a_wild_one():
    assert closest("quadruped", TASKS) == []
    assert closest("swarm/" + 1_000_000 * "x", TASKS) == []  # which would take minutes to compare


def test_a_part_of_a_name_suggests_those_that_contain_it():
    known = ["locomotion/go1-getup", "locomotion/go1-joystick-flat", "locomotion/go2-getup", "swarm/hover"]
    said = "did you mean 'locomotion/go1-getup' or 'locomotion/go1-joystick-flat'?"
    assert said in str(UnknownNameError("task", "go1", known))
    assert said in str(UnknownNameError("task", "GO1", known))
    assert errors.suggestions("hover", [*known, "swarm/hover-far"]) == ["swarm/hover", "swarm/hover-far"]
    assert errors.suggestions("g", known) == []
    assert len(errors.suggestions("task", [f"some-task-{i}" for i in range(50)])) == errors.SUGGESTED


def test_alternatives_read_as_prose():
    assert [errors.alternatives(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        *("", "a", "a or b", "a, b or c")
    ]


@pytest.mark.parametrize("kind", [EmbodiedError, errors.ModelError])
def test_a_message_is_one_line_also_where_it_names_a_file_of_several(kind):
    assert str(kind("a\nb.xml does not exist")) == "a b.xml does not exist"


def test_unknown_name_survives_a_process_boundary():
    error = pickle.loads(pickle.dumps(UnknownNameError("task", "x", ["y"])))
    assert (str(error), error.kind, error.name, error.known) == ("unknown task 'x'; known: y", "task", "x", ("y",))


@pytest.mark.parametrize(
    "name", ["UnknownNameError", "CheckpointError", "RunError", "EngineError", "ActionError", "ModelError"]
)
def test_every_error_has_one_root(name):
    assert issubclass(getattr(errors, name), EmbodiedError)


def raising(error: BaseException):
    @guard
    def main() -> None:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (EmbodiedError("no such robot"), 2, "error: no such robot\n"),
        (errors.RunError("two\nlines"), 2, "error: two lines\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "video.mp4"),
            2,
            "error: No space left on device while writing 'video.mp4'; free some space, then run the same command "
            "again\n",
        ),
    ],
)
def test_guard_prints_one_line_and_sets_the_exit_code(error, code, printed, capsys):
    with pytest.raises(SystemExit) as exit_:
        raising(error)()
    assert exit_.value.code == code
    assert capsys.readouterr().err == printed


@pytest.mark.parametrize(
    "error", [ValueError("bug"), OSError(errno.EACCES, "denied"), BrokenPipeError(), SystemExit(3)]
)
def test_guard_lets_defects_through(error):
    with pytest.raises(type(error)) as raised:
        raising(error)()
    assert raised.value is error


def test_a_working_folder_that_is_gone_is_one_line(tmp_path, monkeypatch, capsys):
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SystemExit) as stop:
        guard(lambda: 0)()
    assert stop.value.code == errors.EXIT_ERROR
    assert capsys.readouterr().err.startswith("error: the working folder does not exist any more")


def test_guard_returns_what_main_returns():
    @guard
    def main(a: int, *, b: int) -> int:
        """Documented."""
        return a + b

    assert main(1, b=2) == 3
    assert main.__doc__ == "Documented."


def test_full_disk_in_a_thread_is_reported_once(capsys):
    def write():
        raise OSError(errno.ENOSPC, "No space left on device")

    @guard
    def main() -> None:
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()

    hook = threading.excepthook
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    assert (
        capsys.readouterr().err == "error: No space left on device; free some space, then run the same command again\n"
    )
    assert threading.excepthook is hook


def run(body: str, redirect: str) -> subprocess.CompletedProcess[str]:
    """Run a guarded main with its output redirected by the shell; the code is that of the program itself."""
    program = f"from embodied.errors import guard\n@guard\ndef main():\n    {body}\nmain()"
    command = f'set -o pipefail; "{sys.executable}" -c "$PROGRAM" {redirect}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PROGRAM": program}
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize("body", ["[print(i) for i in range(100000)]", "import time; time.sleep(0.5); print(1)"])
def test_a_reader_that_leaves_early_is_no_error(body):
    done = run(body, "| true")
    assert (done.stderr, done.returncode) == ("", 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_onto_a_full_disk_is_one_line():
    done = run("print('x' * 10)", "> /dev/full")
    assert done.returncode == 2
    assert done.stderr == "error: No space left on device; free some space, then run the same command again\n"
