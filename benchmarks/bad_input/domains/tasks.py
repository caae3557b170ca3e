"""Tasks in a user's own file: hooks that return or raise anything, and files that are no tasks."""

from __future__ import annotations

import random

from benchmarks.bad_input import mutate
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Attempt, Kinds, Must, Said, call

TEXT = '''"""A cart that balances a pole."""
import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.core.hooks import Timing
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState

XML = """<mujoco><option timestep="0.01"/><worldbody><body name="cart"><joint name="rail" type="slide" axis="1 0 0"/>
<geom size=".1" mass="1" contype="0" conaffinity="0"/><body name="pole"><joint name="hinge" axis="0 1 0"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 .6" mass=".1" contype="0" conaffinity="0"/></body></body></worldbody>
<actuator><motor name="m" joint="rail"/></actuator></mujoco>"""


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights."""

    upright: float = 1.0
    """Closeness to the vertical."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Options."""

    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """What an episode remembers."""

    steps: jax.Array
    """() int32."""


class Balance(Task[State]):
    """Balance."""

    config_type = Config
    timing = Timing(physics_dt=0.01, substeps=2, episode_seconds=0.1)
    action_size = 1

    def build_spec(self):
        return mujoco.MjSpec.from_string(XML)

    def reset(self, key):
        return ResetState(jnp.zeros(2), jnp.zeros(2), State(jnp.zeros((), jnp.int32)))

    def apply_action(self, world, state, command):
        return Control(ctrl=command), state

    def post_step(self, world, state, action, key):
        return State(state.steps + 1)

    def observe(self, world, state, key):
        """`policy`: position (2) m and rad."""
        return {"policy": {"position": world.qpos}}

    def rewards(self, world, state, action):
        return {"upright": jnp.cos(world.qpos[1])}

    def outcome(self, world, state):
        return Outcome(success=world.qpos[1] > 2.0, failure=world.qpos[1] < -2.0)
'''
HOOKS = {
    "build_spec": "mujoco.MjSpec.from_string(XML)",
    "reset": "ResetState(jnp.zeros(2), jnp.zeros(2), State(jnp.zeros((), jnp.int32)))",
    "apply_action": "Control(ctrl=command), state",
    "post_step": "State(state.steps + 1)",
    "observe": '{"policy": {"position": world.qpos}}',
    "rewards": '{"upright": jnp.cos(world.qpos[1])}',
    "outcome": "Outcome(success=world.qpos[1] > 2.0, failure=world.qpos[1] < -2.0)",
}
"""Hook -> what it returns."""
NOTHING = ("None", "'text'", "3", "object()", "[1, [2]]", "{}", "()", "jnp.zeros(7)", "(_ for _ in ())", "Task",
    "lambda: 0", "{None: 1}", "float('nan')", "b'x'", "State", "np.array(['a', None], object)", "self",
    "...")  # fmt: skip
RAISED = ("ValueError('a\\nb')", "KeyError('x')", "SystemExit(3)", "SystemExit('gone')", "KeyboardInterrupt",
    "GeneratorExit", "BaseException('base')", "StopIteration", "RecursionError", "MemoryError", "Exception",
    "AssertionError", "OSError(28, 'full')", "FileNotFoundError(2, 'gone', 'x')", "UnicodeError", "TimeoutError",
    "BrokenPipeError", "type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})", "ImportError('no')",
    "NotImplementedError", "RuntimeWarning('w')")  # fmt: skip
PARTS = {
    "reset": ("ResetState(jnp.zeros(3), jnp.zeros(2), S)", "ResetState(jnp.zeros(2), jnp.zeros(9), S)",
    "ResetState(jnp.zeros(2), jnp.zeros(2), None)", "ResetState(None, None, S)",
    "ResetState(jnp.zeros(2) + 1j, jnp.zeros(2), S)",
    "ResetState(jnp.zeros(2), jnp.zeros(2), S, {'body_mass': jnp.zeros(9)})",
    "ResetState(jnp.zeros(2), jnp.zeros(2), S, {'no_field': jnp.zeros(1)})", "ResetState('ab', [1], S)"),
    "apply_action": ("Control(ctrl=jnp.zeros(5)), state", "Control(ctrl=command)", "command, state",
    "Control(ctrl=None), state", "Control(), State(0.5)", "Control(ctrl=None)", "Control(ctrl=command + 1j), state"),
    "post_step": ("State(jnp.zeros(3))", "State(1.5)", "State('x')", "dataclasses.replace(state, other=1)",
    "(state,)", "State(None)"),
    "observe": ("{'policy': world.qpos}", "{'critic': {'a': world.qpos}}", "{'policy': {}}",
    "{'policy': {'a': 'text'}}", "{'policy': {'a': [1, [2]]}}", "{'policy': {'a': jnp.zeros((2, 2, 2))}}",
    "{'policy': {'a': jnp.zeros(0)}}", "{3: {'a': world.qpos}}", "{'policy': {'a': None}}",
    "{'policy': {'a': world['nothing']}}", "{'policy': {'a': world.qpos + 1j}}"),
    "rewards": ("{'other': 1.0}", "{'upright': 1.0, 'more': 2.0}", "{'upright': world.qpos}", "{'upright': 'x'}",
    "{'upright': None}", "{'upright': 1j}", "[('upright', 1.0)]"),
    "outcome": ("Outcome(success=1.5, failure=False)", "Outcome(success=None, failure=False)",
    "Outcome(success=world.qpos > 0, failure=False)", "Outcome()", "(True, False)",
    "Outcome(success='yes', failure='no')", "True"),
    "build_spec": ("mujoco.MjModel.from_xml_string(XML)", "XML", "mujoco.MjSpec()",
    "mujoco.MjSpec.from_string('<a/>')", "mujoco.MjSpec.from_string(XML.replace('rail', 'hinge'))",
    "mujoco.MjSpec.from_file('gone.xml')"),
}  # fmt: skip
"""Hook -> results that are nearly right."""


def written(box: Box, rng: random.Random, text: str) -> str:
    """A file of a name of its own: files are imported once in a process."""
    name = f"own_{rng.randrange(10**12)}.py"
    (box.work / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    return name


def tried(rng: random.Random, box: Box, text: str, what: str, must: Must, name: str = "") -> Attempt:
    """Build the task, measure a policy on it, or check it."""
    file = written(box, rng, text)
    command = rng.choice(
        (["embodied.evaluate", "--policy", "zero", "--episodes", "2", "--num-envs", "2"], ["embodied.check"])
    )

    target = f"{file}:{name}" if name else file
    return Attempt(f"{what} ({command[0]})", lambda: call(command[0], target, *command[1:]), must)


def returns(rng: random.Random, box: Box) -> Attempt:
    """A hook returns what is no result of it."""
    hook = rng.choice(sorted(HOOKS))
    result = rng.choice(NOTHING)
    text = TEXT.replace(f"return {HOOKS[hook]}\n", f"return {result}\n")
    return tried(rng, box, text, f"{hook} returns {result}", Must.REFUSE)


def returns_nearly(rng: random.Random, box: Box) -> Attempt:
    """A hook returns something of the right form with a wrong part."""
    hook = rng.choice(sorted(PARTS))
    result = rng.choice(PARTS[hook])
    text = TEXT.replace(f"return {HOOKS[hook]}\n", f"return {result}\n")
    text = text.replace(", S)", ", State(jnp.zeros((), jnp.int32)))").replace(
        ", S,", ", State(jnp.zeros((), jnp.int32)),"
    )
    mild = (
        "State(1.5)",
        "Control(), State(0.5)",
        "Control(ctrl=None)",
        "{'upright': 1.0",
        "Outcome(success=1.5",
        "[('upright'",
    )
    return tried(rng, box, text, f"{hook} returns {result}", Must.EITHER if result.startswith(mild) else Must.REFUSE)


def raises(rng: random.Random, box: Box) -> Attempt:
    """A hook raises anything."""
    hook, error = rng.choice(sorted(HOOKS)), rng.choice(RAISED)
    text = TEXT.replace(f"return {HOOKS[hook]}\n", f"raise {error}\n")
    return tried(rng, box, text, f"{hook} raises {error}", Must.REFUSE)


def declares(rng: random.Random, box: Box) -> Attempt:
    """What a task declares beside its hooks is none of its kind."""
    name, values = rng.choice(
        (
            (
                "timing",
                (
                    "None",
                    "3",
                    "Timing(0, 1, 1)",
                    "Timing(0.01, 0, 1)",
                    "Timing(0.01, 2, -1.0)",
                    "Timing(float('nan'), 2, 1)",
                    "Timing(0.01, 2.5, 1)",
                    "'fast'",
                    "Timing(0.01, 2, float('inf'))",
                    "Timing(0.01, 2, 1e-9)",
                ),
            ),
            ("action_size", ("None", "0", "-1", "'1'", "1.5", "10**9", "True", "[1]", "float('nan')")),
            ("config_type", ("None", "int", "dict", "3", "'Config'", "list", "State")),
            ("engines", ("None", "()", "('warp9',)", "'mujoco'", "3", "('mujoco', 'mujoco')")),
            ("language", ("'Balance.'", "3", "[]")),
            ("mirror", ("'left'", "3")),
            ("team", ("3", "'two'")),
            ("operator", ("3", "[]")),
            ("pictures", ("3", "'front'")),
        )
    )
    value = rng.choice(values)
    known = {
        "timing": "timing = Timing(physics_dt=0.01, substeps=2, episode_seconds=0.1)",
        "action_size": "action_size = 1",
        "config_type": "config_type = Config",
    }
    line = known.get(name, "config_type = Config")
    new = f"{name} = {value}" if name in known else f"{line}\n    {name} = {value}"
    mild = value in ("True", "('mujoco', 'mujoco')", "'mujoco'", "State", "None") and name not in (
        "timing",
        "action_size",
    )
    return tried(
        rng,
        box,
        TEXT.replace(line, new),
        f"{name} = {value}",
        Must.EITHER if mild or value in ("True", "[]") else Must.REFUSE,
    )


def no_task(rng: random.Random, box: Box) -> Attempt:
    """Files that hold no task, several, half of one, or no Python."""
    ways = {
        "empty": "", "no class": "x = 1\n", "a class": "class Balance: ...\n", "syntax": TEXT.replace("def reset",
        "def reset(("), "tabs": TEXT.replace("    def reset", "\tdef reset"),
        "import": "import no_such_module\n" + TEXT, "exit": "raise SystemExit(4)\n" + TEXT, "raises": "1 / 0\n",
        "two": TEXT + "\n\nclass Other(Balance):\n    pass\n",
        "abstract": "from embodied.core.task import Task\n\nclass Half(Task):\n    pass\n",
        "nul": TEXT.replace("Balance.", "\0"), "not UTF-8": TEXT.replace("Balance.", "\udcff"),
        "deep": "x = " + "(" * 500 + ")" * 500, "recursive": "def f():\n    return f()\n\nf()\n",
        "prints": "print('hello')\n" + TEXT,
        "star": TEXT + "\nfrom os import *\n", "init": TEXT.replace("    action_size = 1\n",
        "    action_size = 1\n\n    def __init__(self):\n        pass\n"),
        "metaclass": TEXT
        + "\nclass M(type):\n    def __subclasscheck__(c, s):\n        1 / 0\n\nclass N(metaclass=M): ...\n",
        "property": TEXT.replace("    action_size = 1\n",
        "    @property\n    def action_size(self):\n        return 1 / 0\n"), "not a file": "",
        "training": TEXT + "\ntraining = 3\n", "threads": TEXT.replace("def build_spec(self):",
        "def build_spec(self, extra):"),
    }  # fmt: skip
    way = rng.choice(sorted(ways))
    works = way in ("prints", "star", "metaclass", "training")
    return tried(rng, box, ways[way], way, Must.EITHER if works or way == "property" else Must.REFUSE)


def no_name(rng: random.Random, box: Box) -> Attempt:
    """Names of tasks that there are not, in files that there are or are not."""
    written_name = written(box, rng, TEXT)
    (box.work / "folder.py").mkdir()
    texts = (f"{written_name}:Nothing", f"{written_name}:", f"{written_name}:State", f"{written_name}::Balance",
        f"{written_name}:np", f"{written_name}:Balance.reset", f"{written_name}:Task", "gone.py", "gone.py:Balance",
        "folder.py", ".py", ":", ":Balance", "/dev/null:Balance", "/etc/passwd", "x.py" * 2000, "swarm/hovr",
        "swarm", "", "swarm/hover ", "SWARM/HOVER", "mt10x", "../" * 50 + "x.py:Y", "-", "a\nb",
        "swarm/hover:Hover")  # fmt: skip
    text = rng.choice(texts)
    command = rng.choice(
        (
            "embodied.evaluate",
            "embodied.check",
            "embodied.train",
            "embodied.list",
            "embodied.play",
            "embodied.bench",
            "embodied.collect",
            "sim2real.export",
        )
    )
    out = ("--out", str(box.out / "x")) if command in ("embodied.train", "embodied.collect", "sim2real.export") else ()
    if text == "" or (command == "embodied.list" and text in ("swarm", "-", ":")):
        text = "gone.py"
    return Attempt(f"{command} {text[:50]!r}", lambda: call(command, text, *out), Must.REFUSE)


def valid(rng: random.Random, box: Box) -> Attempt:
    """A valid task in a file of an unusual name or text."""
    path = box.work / rng.choice(("with space", "ключ", "[1]", "a.b", "x" * 100, "-dash"))
    path.mkdir()
    file = (
        path
        / f"{rng.choice(('my task', 'задача', 'a.b', 'class', '1st', 'json', 'embodied'))}{rng.randrange(10**9)}.py"
    )
    text = rng.choice(
        (
            TEXT,
            TEXT.replace("\n", "\r\n"),
            "\ufeff" + TEXT,
            "# -*- coding: utf-8 -*-\n" + TEXT,
            TEXT.replace("Balance.", "Баланс."),
        )
    )
    file.write_text(text, encoding="utf-8", newline="")
    words = ("--policy", "zero", "--episodes", "2", "--num-envs", "2", "--json", str(box.out / "r.json"))
    target = f"{file.relative_to(box.work)}{rng.choice(('', ':Balance'))}"
    if target.startswith("-"):
        target = f"./{target}"

    def result(said: Said) -> str:
        return "" if "Traceback" not in said.err and (box.out / "r.json").exists() else "no result"

    return Attempt(f"{target}", lambda: call("embodied.evaluate", target, *words), Must.WORK, result)


def damaged(rng: random.Random, box: Box) -> Attempt:
    """A valid file of which some bytes are others."""
    data, how = mutate.damaged(TEXT.encode(), rng)
    text = data.decode("utf-8", errors="surrogateescape")
    return tried(rng, box, text, how, Must.EITHER)


KINDS: Kinds = {
    "returns nothing of the kind": returns,
    "returns nearly": returns_nearly,
    "raises": raises,
    "declares": declares,
    "no task": no_task,
    "no such name": no_name,
    "valid": valid,
    "damaged": damaged,
}
