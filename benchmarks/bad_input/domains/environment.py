"""What surrounds a process: variables, locale, folders, limits, standard streams. Each case is a process of its own."""

from __future__ import annotations

import dataclasses
import os
import random
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.bad_input import examples
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Attempt, Kinds, Must, Said

ROOT = Path(__file__).resolve().parents[3]
LIGHT: tuple[tuple[str, ...], ...] = (
    ("list",),
    ("list", examples.TASK),
    ("runs", "--root", "runs"),
    ("--help",),
    ("train", "--help"),
    ("new", "task", "mine", "--folder", "out"),
    ("nonsense",),
    ("check", "gone.py"),
)
"""Commands that need no JAX, in valid words and in one that is refused."""
HEAVY: tuple[tuple[str, ...], ...] = (
    ("evaluate", examples.TASK, "--policy", "zero", "--episodes", "2", "--num-envs", "2", "--episode-steps", "3"),
    ("robot", "legged/robot.urdf"),
    ("runs", "--root", "."),
    ("preflight", "log.csv", "--json", "out/p.json"),
    ("curves", "run", "--out", "out/c.png"),
    ("bundle", "bundle"),
)
"""Those that do."""


def command(rng: random.Random, box: Box) -> tuple[str, ...]:
    """A command, with what it reads."""
    if rng.random() < 0.75:
        return rng.choice(LIGHT)
    for name in ("legged", "log.csv", "run", "bundle"):
        box.copied(name)
    return rng.choice(HEAVY)


def run(
    words: tuple[str, ...],
    variables: Mapping[str, str | None] = {},
    *,
    before: Callable[[], None] | None = None,
    shell: str = "",
    cwd: Path | None = None,
) -> Said:
    """Run the program in a process of its own; with `shell`, a line in which it is `$RUN`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in ("OMP_NUM_THREADS", "XLA_FLAGS"):
        environment.setdefault(name, "")
    for name, value in variables.items():
        environment.pop(name, None)
        environment.update({} if value is None else {name: value})
    program = [sys.executable, "-m", "embodied", *words]
    line = ["bash", "-c", shell.replace("$RUN", shlex.join(program))] if shell else program
    done = subprocess.run(
        line, env=environment, cwd=cwd, capture_output=True, preexec_fn=before,
        stdin=subprocess.DEVNULL, check=False
    )  # fmt: skip
    return Said(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def attempt(words: tuple[str, ...], what: str, act: Callable[[], Said], must: Must = Must.EITHER) -> Attempt:
    """Run it: what ends a process that is not limited by the case's own clock is a hang all the same."""
    return Attempt(f"embodied {' '.join(words)[:60]}: {what}", act, must)


def sound(words: tuple[str, ...]) -> Must:
    """A command that works in sound surroundings has to work in these."""
    return Must.REFUSE if words[0] in ("nonsense",) or "gone.py" in words else Must.WORK


VARIABLES: Mapping[str, tuple[str, ...]] = {
    "WORLD_SIZE": ("1", "2", "0", "-1", "x", "", "1e3"),
    "RANK": ("0", "5", "x", ""),
    "LOCAL_RANK": ("0", "x", "-1"),
    "LOCAL_WORLD_SIZE": ("", "x", "0"),
    "MASTER_ADDR": ("", "nowhere.invalid"),
    "JAX_ENABLE_X64": ("1", "true", "x"),
    "JAX_PLATFORMS": ("cuda", "tpu", "x", "", "cpu"),
    "JAX_COMPILATION_CACHE_DIR": ("", "/proc/x", "/dev/null", "gone/deep", "x" * 300),
    "XLA_FLAGS": ("", "--xla_no_such_flag=1", "nonsense"),
    "MUJOCO_GL": ("osmesa", "glfw", "egl", "x", ""),
    "MUJOCO_EGL_DEVICE_ID": ("7", "-1", "x"),
    "CUDA_VISIBLE_DEVICES": ("", "-1", "99", "x"),
    "COLUMNS": ("0", "1", "x", "-5", "99999", ""),
    "LINES": ("0", "x"),
    "TERM": ("dumb", "", "x", "xterm-256color"),
    "NO_COLOR": ("1", ""),
    "FORCE_COLOR": ("1", "x"),
    "LC_ALL": ("C", "POSIX", "tr_TR.UTF-8", "xx_YY", "", "ja_JP.SJIS"),
    "LANG": ("C", "xx"),
    "PYTHONIOENCODING": ("ascii", "utf-16", "latin-1"),
    "PYTHONUTF8": ("0", "1"),
    "PYTHONWARNINGS": ("error", "always"),
    "PYTHONOPTIMIZE": ("2",),
    "PYTHONHASHSEED": ("0", "1"),
    "PYTHONUNBUFFERED": ("1",),
    "PYTHONDONTWRITEBYTECODE": ("1",),
    "TZ": ("Nowhere/X", "", "UTC+99"),
    "HOME": ("", "/no/such", "/dev/null", "/proc"),
    "TMPDIR": ("/no/such", "/dev/null", ""),
    "XDG_CACHE_HOME": ("/no/such", ""),
    "OMP_NUM_THREADS": ("0", "x", "-1", "1000"),
    "MPLBACKEND": ("nonsense", "TkAgg"),
    "EMBODIED_X": ("1",),
    "SOURCE_DATE_EPOCH": ("x",),
    "http_proxy": ("http://127.0.0.1:1",),
    "DISPLAY": (":99", ""),
    "USER": ("",),
    "SHELL": ("/bin/nothing",),
    "COMP_WORDS": ("x",),
}


def variables(rng: random.Random, box: Box) -> Attempt:
    """Environment variables that others set, are empty, or hold words for numbers."""
    names = rng.sample(sorted(VARIABLES), rng.choice((1, 1, 2, 4)))
    chosen = {name: rng.choice((*VARIABLES[name], None)) for name in names}
    words = command(rng, box)
    hopeless = {
        "JAX_ENABLE_X64",
        "JAX_PLATFORMS",
        "XLA_FLAGS",
        "WORLD_SIZE",
        "RANK",
        "LOCAL_WORLD_SIZE",
        "LOCAL_RANK",
        "PYTHONIOENCODING",
        "PYTHONWARNINGS",
        "TMPDIR",
        "MUJOCO_GL",
        "MUJOCO_EGL_DEVICE_ID",
        "OMP_NUM_THREADS",
        "LC_ALL",
        "LANG",
        "MPLBACKEND",
    }
    must = sound(words) if not hopeless & chosen.keys() else Must.EITHER
    said = {name: value if value is None else value[:30] for name, value in chosen.items()}
    return attempt(words, str(said), lambda: run(words, chosen), must)


def locales(rng: random.Random, box: Box) -> Attempt:
    """Names that the locale has no letters for, in arguments, folders and outputs."""
    locale = {
        "LC_ALL": rng.choice(("C", "POSIX", "xx_YY.UTF-8")),
        "PYTHONUTF8": rng.choice(("0", None)),
        "PYTHONCOERCECLOCALE": rng.choice(("0", None)),
    }
    name = rng.choice(("ключ", "日本", "é", "\udcff", "🤖"))
    folder = box.out / name
    folder.mkdir()
    words = rng.choice(
        (
            ("new", "task", "mine", "--folder", f"out/{name}/x"),
            ("runs", "--root", f"out/{name}"),
            ("list", name),
            ("check", f"out/{name}.py"),
        )
    )
    return attempt(words, f"{locale}", lambda: run(words, locale))


def streams(rng: random.Random, box: Box) -> Attempt:
    """Standard streams that are closed, full, or read by nobody."""
    lines = {
        "stdin closed": "$RUN <&-", "stdout closed": "$RUN >&-", "stderr closed": "$RUN 2>&-",
        "both closed": "$RUN >&- 2>&-", "all closed": "$RUN <&- >&- 2>&-",
        "stdout full": "$RUN >/dev/full", "stderr full": "$RUN 2>/dev/full", "both full": "$RUN >/dev/full 2>&1",
        "nobody reads": "$RUN | true", "head": "$RUN | head -1",
        "reads a folder": "$RUN < .", "both nowhere": "$RUN >/dev/null 2>&1", "slow": "$RUN | (sleep 1; cat)",
        "no terminal": "setsid $RUN", "to a file": "$RUN > out/log.txt",
        "errors nobody reads": "$RUN 2> >(true)", "exec": "exec $RUN", "piped errors": "$RUN 2>&1 | head -c 10",
    }  # fmt: skip
    way = rng.choice(sorted(lines))
    words = command(rng, box)

    def act() -> Said:
        said = run(words, shell=lines[way])
        # 141 is what a shell says of a program whose reader went away; nothing can be said on streams that are closed.
        quiet = 0 if said.code == 141 or (said.code in (1, 2, 120) and not said.err) else said.code
        return Said(quiet, said.out, said.err)

    return attempt(words, way, act)


def limits(rng: random.Random, box: Box) -> Attempt:
    """Limits of files' sizes, of open files, of processes' memory, stack and time."""
    kinds = {
        "FSIZE": (resource.RLIMIT_FSIZE, (0, 100, 4096)),
        "NOFILE": (resource.RLIMIT_NOFILE, (16, 32, 64)),
        "STACK": (resource.RLIMIT_STACK, (256 << 10, 1 << 20)),
        "CORE": (resource.RLIMIT_CORE, (0,)),
        "NPROC": (resource.RLIMIT_NPROC, (200, 2000)),
    }
    name = rng.choice(sorted(kinds))
    kind, values = kinds[name]
    value = rng.choice(values)
    words = rng.choice(
        (
            ("new", "task", "mine", "--folder", "out/new"),
            ("list",),
            ("preflight", "log.csv", "--json", "out/p.json"),
            ("curves", "run", "--out", "out/c.png"),
            ("runs", "--root", "."),
        )
    )
    for example in ("log.csv", "run"):
        box.copied(example)

    def act() -> Said:
        said = run(words, {"PYTHONDONTWRITEBYTECODE": "1"}, before=lambda: resource.setrlimit(kind, (value, value)))
        left = [
            path.name
            for path in box.out.rglob("*")
            if path.name.startswith(".tmp") and path.is_file() and path.stat().st_size == 0
        ]
        return Said(said.code, said.out, said.err + ("\nTraceback (most: left " + str(left) if left else ""))

    return attempt(words, f"{name} {value}", act)


@dataclasses.dataclass(frozen=True)
class Folder:
    """A working folder."""

    place: Path
    shell: str = ""
    """Commands that lead there."""
    harmless: bool = False
    """Whether commands that are sound work in it."""


MODULES = (
    *("json.py", "jax.py", "numpy.py", "torch.py", "types.py", "enum.py", "random.py", "mujoco.py", "tasks.py"),
    *("policies.py", "queue.py", "typing.py"),
)


def gone(rng: random.Random, box: Box) -> Folder:
    del rng
    there = f"{box.root}/tmp/gone"
    return Folder(box.work, f"mkdir -p {there} && cd {there} && rmdir ../gone && $RUN")


def hiding(rng: random.Random, box: Box) -> Folder:
    """Files that hide modules are Python's own way; the process must only say so."""
    for name in rng.sample(MODULES, 2):
        (box.work / name).write_text("raise RuntimeError('this is not the module')\n")
    return Folder(box.work)


def strange(rng: random.Random, box: Box) -> Folder:
    del rng
    for name in ("runs", "run.json", "robot.toml", "config.json", "pyproject.toml", "\udcff", "a\nb"):
        (box.work / name).write_bytes(b"\xff\x00")
    return Folder(box.work, harmless=True)


def linked(rng: random.Random, box: Box) -> Folder:
    del rng
    (box.root / "link").symlink_to(box.work)
    return Folder(box.root / "link", harmless=True)


def deep(rng: random.Random, box: Box) -> Folder:
    del rng
    place = box.out.joinpath(*["d" * 100] * 12)
    place.mkdir(parents=True)
    return Folder(place)


def looped(rng: random.Random, box: Box) -> Folder:
    del rng
    (box.work / "runs").symlink_to("runs")
    return Folder(box.work, harmless=True)


def nested(rng: random.Random, box: Box) -> Folder:
    del rng
    (box.work / "runs").mkdir()
    (box.work / "runs" / "x").symlink_to("..")
    return Folder(box.work, harmless=True)


def unusual(rng: random.Random, box: Box) -> Folder:
    place = box.out / rng.choice(("ключ", "a b", "-x", "$(id)", "'", "%s"))
    place.mkdir()
    return Folder(place)


FOLDERS: Mapping[str, Callable[[random.Random, Box], Folder]] = {
    "gone": gone,
    "hides modules": hiding,
    "strange files": strange,
    "is a link": linked,
    "deep": deep,
    "root": lambda rng, box: Folder(Path("/proc/self")),
    "loop of links": looped,
    "other runs": nested,
    "unusual name": unusual,
}


def folders(rng: random.Random, box: Box) -> Attempt:
    """Working folders that are gone, read-only, full of strange things, or hide the suite's own modules."""
    words, way = command(rng, box), rng.choice(list(FOLDERS))
    folder = FOLDERS[way](rng, box)
    if way == "root":
        words = ("list",)
    known = words in (("list",), ("list", examples.TASK))
    must = sound(words) if folder.harmless and known else Must.EITHER

    def act() -> Said:
        said = run(words, {"PYTHONDONTWRITEBYTECODE": "1"}, shell=folder.shell, cwd=folder.place)
        hidden = way == "hides modules" and "this is not the module" in said.err
        return Said(said.code, said.out, "error: hidden\n" if hidden else said.err)

    # Relative paths of commands lead elsewhere from other folders: what is looked at is how they end.
    return attempt(words, way, act, must)


def signals(rng: random.Random, box: Box) -> Attempt:
    """Signals at any moment: interrupted in a line, within seconds."""
    name = rng.choice(("INT", "TERM", "HUP", "PIPE", "USR1", "QUIT"))
    delay = rng.choice((0.02, 0.1, 0.3, 0.6, 1.2))
    words = command(rng, box)

    def act() -> Said:
        said = run(words, shell=f"set -m; $RUN & sleep {delay}; kill -{name} $! 2>/dev/null; wait $!")
        # A signal that nobody handles kills; Ctrl-C before the program has begun is Python's.
        killed = said.code > 128
        errors = "".join(line for line in said.err.splitlines(True) if not line.startswith("[1]"))  # less bash's own
        early = name == "INT" and delay < 0.5
        return Said(0 if killed else said.code, said.out, "" if early and "KeyboardInterrupt" in said.err else errors)

    return attempt(words, f"{name} after {delay} s", act)


def arguments(rng: random.Random, box: Box) -> Attempt:
    """Arguments of the program itself: no command, unknown ones, bytes, very many, very long."""
    words = rng.choice(
        (
            (), ("",), ("-h",), ("--version",), ("-V",), ("--",), ("-",), ("lst",), ("trian",), ("train", "", "",
            ""), ("list", *["x"] * 3000), ("x" * 100_000,),
            ("\udcff",), ("list", "\udcff"), ("help",), ("help", "train"), ("TRAIN",), ("list", "--json"), (
            "embodied", "list"), ("list", "--all", "--suites", "--learners"),
            ("list", "[a"), ("list", "*"), ("list", "a\nb"), ("--help", "train"), ("train", "-h", "--nothing"), (
            ";", "ls"), ("list\0".rstrip("\0"), ""), ("=",), ("list=1",), ("-x", "list"),
        )
    )  # fmt: skip
    return attempt(words, "", lambda: run(words))


def installed(rng: random.Random, box: Box) -> Attempt:
    """Packages that are missing or broken: named in a line with what installs them."""
    package = rng.choice(
        (
            "matplotlib",
            "onnx",
            "onnxruntime",
            "mcap",
            "pyarrow",
            "optuna",
            "imageio",
            "viser",
            "tensorboard",
            "cmaes",
            "rich",
            "cv2",
            "wandb",
            "gymnasium",
            "moviepy",
        )
    )
    shadow = box.work / "shadow"
    shadow.mkdir()
    error = rng.choice(
        (
            f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')",
            "raise ImportError('libGL.so.1: cannot open shared object file')",
        )
    )
    (shadow / f"{package}.py").write_text(error + "\n")
    words = command(rng, box)
    needs = {"curves": "matplotlib", "bundle": "onnxruntime", "preflight": "mcap"}.get(words[0])
    path = {"PYTHONPATH": f"{shadow}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    hard = package in ("rich", "cv2", "imageio", "gymnasium", "pyarrow", "viser")  # of which nothing works without

    def act() -> Said:
        said = run(words, path)
        fatal = hard and f"{package}.py" in said.err
        return Said(2 if fatal else said.code, said.out, "error: a dependency is gone\n" if fatal else said.err)

    return attempt(words, f"without {package}", act, sound(words) if not hard and needs != package else Must.EITHER)


KINDS: Kinds = {
    "variables": variables,
    "locales": locales,
    "streams": streams,
    "limits": limits,
    "folders": folders,
    "signals": signals,
    "arguments": arguments,
    "packages": installed,
}
