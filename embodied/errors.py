"""Errors meant for the user, and the decorator through which command lines report them.

Every message names the offending value, what was expected and what exists, in one line. Anything else that escapes
(a `TypeError`, a failed `assert`) is a defect of the program and keeps its traceback.
"""

import contextlib
import difflib
import errno
import functools
import io
import operator
import os
import select
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TextIO, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

EXIT_ERROR = 2
EXIT_SIGNAL = 128  # plus its number: what a shell reports
EXIT_INTERRUPTED = EXIT_SIGNAL + 2  # SIGINT
EXIT_BROKEN_PIPE = EXIT_SIGNAL + 13  # SIGPIPE
NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP)  # the input cannot be an existing path
PATH_SHOWN = 60  # characters of it
LISTED = 12  # names shown before a listing is shortened
SUGGESTED = 6  # names of those that contain what was given
MESSAGE_SHOWN = 300  # characters of what a user's own code raised
OWN_FILES: set[str] = set()
"""User's files that were imported by their names: errors in their code are shown by their own lines."""
WORDINGS: set[Callable[[str], str]] = set()
"""Functions that change a message's words before it is printed: `embodied.cli` names commands as they were typed."""
AROUND: set[Callable[[], contextlib.AbstractContextManager[object]]] = set()
"""What a guarded main runs in: `embodied.cli` hears signals there."""


class EmbodiedError(Exception):
    """Root of all errors that a user can cause and fix. Command lines print it as one line and exit with code 2."""

    def __str__(self) -> str:
        """One line, also where it names a file or a text of several."""
        return " ".join(super().__str__().splitlines())


class UnknownNameError(EmbodiedError, LookupError):
    """A name that no registry holds."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        """Compose the message.

        Args:
            kind: What was looked up, in the singular: "task", "engine", "robot".
            name: The name that was given.
            known: Every name that would have been accepted.
        """
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        guesses = alternatives(map(repr, suggestions(str(name), self.known)))
        guess = f"; did you mean {guesses}?" if guesses else ";"
        exists = f"known: {listing(self.known)}" if self.known else f"no {kind} is registered"
        super().__init__(f"unknown {kind} {name!r}{guess} {exists}")

    def __reduce__(self) -> tuple[type["UnknownNameError"], tuple[str, object, tuple[str, ...]]]:
        return type(self), (self.kind, self.name, self.known)


class CheckpointError(EmbodiedError):
    """A checkpoint that cannot be written, or that is missing, damaged or of another version."""


class RunError(EmbodiedError):
    """A run folder that cannot be created, or is not the run it should be."""


class EngineError(EmbodiedError):
    """A physics engine that is not installed, or cannot do what was requested."""


class ActionError(EmbodiedError, ValueError):
    """An action of the wrong shape, type or device, or one that is not finite."""


class ModelError(EmbodiedError):
    """A robot or scene model that lacks a part, or does not compile."""


class SimulationError(EmbodiedError):
    """Physics that diverged or overflowed a buffer."""


LONGEST = 200  # letters of a name that may be a misspelling: to compare names takes the square of that


def closest(name: str, known: Iterable[str], limit: int = 2) -> list[str]:
    """Names that `name` may be a misspelling of, best first.

    A name with a family ("manipulation/pick-place") is also compared by its last part alone, so that leaving the
    family out is as forgivable as a wrong letter. Nothing is guessed for a name that is longer than any is.
    """
    if len(name) > LONGEST:
        return []

    def likeness(candidate: str) -> float:
        forms = (candidate.lower(), candidate.lower().rpartition("/")[2])
        return max(difflib.SequenceMatcher(None, name.lower(), form).ratio() for form in forms)

    scores = {candidate: likeness(candidate) for candidate in known}
    ranked = sorted((c for c in scores if scores[c] >= 0.7), key=lambda c: (-scores[c], c))
    # A second guess is only worth its place where it is nearly as good as the first.
    return [c for c in ranked if scores[c] >= scores[ranked[0]] - 0.05][:limit]


def containing(name: str, known: Iterable[str]) -> list[str]:
    """Names that contain `name`, in any case; of a single letter, none."""
    part = name.lower().strip()
    return [candidate for candidate in known if len(part) > 1 and part in candidate.lower()]


def suggestions(name: str, known: Iterable[str]) -> list[str]:
    """Names that may be meant: misspelled first, then those of which only a part was given; at most `SUGGESTED`."""
    candidates = list(known)
    return list(dict.fromkeys([*closest(name, candidates), *containing(name, candidates)]))[:SUGGESTED]


def alternatives(names: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`; empty for none."""
    *first, last = [*names] or [""]
    return f"{', '.join(first)} or {last}" if first else last


def listing(names: Iterable[object], limit: int = LISTED) -> str:
    """Join names with commas, and count instead of showing what exceeds `limit`."""
    texts = [str(name) for name in names]
    hidden = len(texts) - limit
    return ", ".join(texts) if hidden <= 0 else f"{', '.join(texts[:limit])} and {hidden} more"


def reason(error: BaseException) -> str:
    """Reason why an operation failed, without the file names and numbers that an `OSError` repeats."""
    return (isinstance(error, OSError) and error.strerror) or text_of(error) or type(error).__name__


def text_of(error: BaseException) -> str:
    """An error's text; empty where the user's own class of errors cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Frames of an error in the user's own files and beside them; none where it did not go through one of them."""
    folders = {Path(file).parent for file in OWN_FILES}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent in folders]
    return frames if any(frame.filename in OWN_FILES for frame in frames) else []


def place_in(frame: traceback.FrameSummary) -> str:
    """A frame as `my_task.py, line 40, in observe`."""
    return f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"


def placed(error: EmbodiedError) -> str:
    """An error's message, with the line of the user's own file through which it went, unless it names that file."""
    frames = own_frames(error)
    said = not frames or Path(frames[-1].filename).name in str(error)
    return str(error) if said else f"{error} ({place_in(frames[-1])})"


def own_traceback(error: BaseException) -> tuple[str, str] | None:
    """A traceback of the lines in the user's own files alone, and one line with the place; None: it has none."""
    if not (frames := own_frames(error)):
        return None
    said = (text_of(error).strip().splitlines() or [""])[0]
    where, kind = place_in(frames[-1]), type(error).__name__
    text = "".join(["In your own file:\n", *traceback.format_list(frames), f"{kind}: {text_of(error)}\n"])
    return text, f"{where}: {kind}: {said[:MESSAGE_SHOWN]}"


def guard(main: Callable[P, R]) -> Callable[P, R]:
    """Decorate the `main` of an entry module: errors a user can fix become one line on stderr and an exit code."""

    @functools.wraps(main)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        _open_streams()
        try:
            os.getcwd()  # without one, torch's libraries end the process
        except OSError:
            _exit(EXIT_ERROR, "error: the working folder does not exist any more; change to another one")
        lost: list[BaseException] = []
        default_hook = threading.excepthook

        def hook(thread: threading.ExceptHookArgs) -> None:
            # TensorBoard writes from a thread, which would print a traceback beside our line.
            if thread.exc_value is not None and _disk_full(thread.exc_value):
                lost.append(thread.exc_value)
            else:
                default_hook(thread)

        threading.excepthook = hook
        try:
            with contextlib.ExitStack() as around:
                for enter in AROUND:
                    around.enter_context(enter())
                result = main(*args, **kwargs)
            sys.stdout.flush()  # A reader that went away shows only when the last of the output is written.
            if lost:
                raise lost[0]
            return result
        except EmbodiedError as error:
            _exit(EXIT_ERROR, f"error: {placed(error)}")
        except KeyboardInterrupt:
            _exit(EXIT_INTERRUPTED, "interrupted")
        except BrokenPipeError as error:
            # A pipe to a worker process can break too; only a reader of our own output leaves quietly.
            if not (_reader_gone(sys.stdout) or _reader_gone(sys.stderr)):
                _exit_for_own(error)
                raise
            _exit(EXIT_BROKEN_PIPE)
        except OSError as error:
            if error.errno in NO_PATH:
                _exit(EXIT_ERROR, f"error: {reason(error)}: {str(error.filename)[:PATH_SHOWN]}...")
            if not _disk_full(error):
                _exit_for_own(error)
                raise
            where = f" while writing '{error.filename}'" if error.filename else ""
            _exit(EXIT_ERROR, f"error: {reason(error)}{where}; free some space, then run the same command again")
        except BaseException as error:  # also a sys.exit() of the user's file
            _exit_for_own(error)
            if isinstance(error, UnicodeEncodeError):
                _exit(
                    EXIT_ERROR, f"error: {ascii(error.object)[:PATH_SHOWN]} is no text in this locale; set PYTHONUTF8=1"
                )
            if _memory_full(error):
                said = str(error).strip().splitlines() or [type(error).__name__]
                _exit(EXIT_ERROR, f"error: not enough memory: {said[0][:MESSAGE_SHOWN]}; ask for less at once")
            raise
        finally:
            threading.excepthook = default_hook

    return guarded


def _open_streams() -> None:
    """Give a process whose standard streams were closed empty ones: the next file opened would take their place."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (as long as the process)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the locale cannot print is no failure
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def _disk_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _memory_full(error: BaseException) -> bool:
    """Whether numpy, torch or JAX could not have as much memory as was asked for."""
    texts = ("can't allocate memory", "out of memory", "RESOURCE_EXHAUSTED")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
    )


def _exit_for_own(error: BaseException) -> None:
    """Leave the process where the user's own file raised: with its lines, and without ours."""
    if (shown := own_traceback(error)) is not None:
        with contextlib.suppress(OSError):
            print(shown[0], end="", file=sys.stderr)
        _exit(EXIT_ERROR, f"error: {shown[1]}")


def _exit(code: int, line: str = "") -> NoReturn:
    """Leave the process with `code`, after printing `line` where it is still read."""
    if line:
        for wording in WORDINGS:
            line = wording(line)
        with contextlib.suppress(OSError):
            print(" ".join(line.splitlines()), file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # The interpreter flushes both streams on its way out, and would complain about this one again.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise SystemExit(code)


def _reader_gone(stream: TextIO) -> bool:
    """Whether `stream` is a pipe whose reading end is closed."""
    if not hasattr(select, "poll"):
        return False
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (OSError, ValueError, AttributeError):  # Replaced by an object without a descriptor, closed, or None.
        return False


def whole_number(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """`value` as an int, with bounds where there are any.

    Raises:
        EmbodiedError: it is none, or out of bounds; names it.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    within = number is not None and (low is None or low <= number) and (high is None or number <= high)
    if number is None or isinstance(value, bool) or not within:
        bounds = "" if low is None else f", at least {low}" if high is None else f", from {low} to {high}"
        raise EmbodiedError(f"{name}={value!r}; expected a whole number{bounds}")
    return number
