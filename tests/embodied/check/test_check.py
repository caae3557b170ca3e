"""`python -m embodied.check`: tasks with one fault each, which is found and named; a sound task passes."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from embodied.check import __main__ as command
from embodied.check import contract, models
from embodied.check.contract import CHECKS, NUM_ENVS, Check, run_check
from embodied.env.factory import make
from embodied.env.registry import join_content
from tests.kit.task_file import SOUND

TOLD = '''
== dtype: state keeps its structure
-> state's steps: post_step makes it float32 of shape (); expected int32 of shape (), as at reset
    def post_step(self, world, state, action, key):
        return dataclasses.replace(state, steps=state.steps + 1.0)

== structure: state keeps its structure
-> state that process_action returns: it is a tuple of another structure
    def process_action(self, world, state, action, key):
        return action, (state.goal, state.steps)

== joints: state keeps its structure
-> reset's qpos: its shape is (2,); expected (1,), as the model has it
    def reset(self, key):
        return dataclasses.replace(super().reset(key), qpos=jnp.zeros(2))

== no policy: state keeps its structure
-> observation: there are the groups robot; expected a group `policy`
    def observe(self, world, state, key):
        return {"robot": {"place": world.qpos}}

== agent on no side: every agent is on one side
-> team: sides: their agents are [0, 0]; expected each of the 1 agents once
    from embodied.core.facets import Team

    team = Team(1, {"red": (0,), "blue": (0,)})

== keypoint that is no place: keypoints are places
-> keypoint 'ball': its shape is (1,); expected (3,), m in the world frame
    from embodied.core.facets import Pictures

    pictures = Pictures(keypoints=lambda world, state: {"ball": world.qpos[:1]})

== command of no field: commands are fields of the state
-> commands: 'gaol': the state has no such field; expected one of
    from embodied.core.facets import Operator

    operator = Operator({"gaol": "m"})

== command range of no field: commands are fields of the state
-> ranges: 'gaol': the state has no such field; expected one of
    from embodied.core.facets import CommandRange, Operator

    operator = Operator(ranges=(CommandRange("x", "m", 0.0, 1.0, "gaol"),))

== mirror without a term: a mirror shows every observed term
-> mirror: observed term 'policy/speed' has no mirror image
    from embodied.math.symmetry import Mirror, unchanged
    mirror = Mirror(unchanged(1), {"place": unchanged(1)})

== command measured in other numbers: commands are fields of the state
-> measured: its shape is (2,); expected (0,)
    from embodied.core.facets import Operator

    operator = Operator(measured=lambda world, state: jnp.zeros(2))

== too many setpoints: commands are fields of the state
-> setpoints: there are 2 names; expected 1, as process_action gives
    from embodied.core.facets import Operator

    operator = Operator(setpoints=("speed, m/s", "turn, rad/s"))

== reward without weight: reward terms are the weighted ones
-> reward term 'effort': it has no weight; expected one of near
    def rewards(self, world, state, action):
        return {**super().rewards(world, state, action), "effort": jnp.sum(action**2)}

== weight without reward: reward terms are the weighted ones
-> weight of 'effort': no reward term has its name
    reward_weights = {"near": 1.0, "effort": -0.1}

== reward of a vector: reward terms are the weighted ones
-> reward term 'near': its shape is (1,); expected ()
    def rewards(self, world, state, action):
        return {"near": world.qpos}

== outcome: outcomes are flags
-> success: it is float32 of shape (); expected bool of shape ()
    def outcome(self, world, state):
        return Outcome(jnp.exp(-jnp.abs(world.qpos[0])), jnp.zeros((), bool))

== numpy: functions are pure
-> reset: it is another function each time it is traced
    def reset(self, key):
        start = super().reset(key)
        return dataclasses.replace(start, qpos=start.qpos + np.random.rand())

== clock: functions are pure
-> observe: it is another function each time it is traced
    def observe(self, world, state, key):
        policy = super().observe(world, state, key)["policy"]
        return {"policy": {**policy, "speed": world.qvel + time.time_ns() % 1_000_003}}

== keeps: functions are pure
-> self.last: a hook keeps a traced number in it; expected that number in the task's state
    def process_action(self, world, state, action, key):
        self.last = action
        return action, state

== counts: functions are pure
-> self.count: a hook writes to it
    count = 0

    def __init__(self, config=None, **changes):
        super().__init__(config, **changes)
        self.count = 0

    def metrics(self, world, state):
        self.count += 1
        return {}

== variation: variations are real
-> variation 'lag': the state has no field 'lag'; expected one of
    def declared_terms(self):
        return (Term("lag", "the motor is late", state_field="lag", no_range="unknown"),)

== variation without a range: variations are real
-> variation 'wind': it states no range; expected its `ranges`, or in `no_range` why it has none
    def declared_terms(self):
        return (Term("wind", "it blows", optional=False),)

== variation of zeros: variations have an effect
-> variation 'friction': two draws of it are the same; expected model fields that differ
    def declared_terms(self):
        def apply(key, fields):
            return {"dof_frictionloss": fields["dof_frictionloss"] * jax.random.uniform(key)}

        return (Term("friction", "of the rail", apply, no_range="any"),)

== variation of a point: variations have an effect
-> variation 'lag': its ranges are single numbers; expected a smaller and a larger
    def declared_terms(self):
        return (Term("lag", "the motor is late", ranges=(Range("delay", 0.1, 0.1, "s"),)),)

== variation that is not drawn: variations have an effect
-> variation 'wind': every hook is the same function without it; expected that a hook draws it
    def declared_terms(self):
        return (Term("wind", "it blows", ranges=(Range("force", 0.0, 1.0, "N"),)),)

== options: options survive the way to a file and back
-> options Options: they cannot be kept as JSON
    @dataclasses.dataclass(frozen=True)
    class Options(TaskConfig):
        goals: frozenset = frozenset({1})
        """Goals."""

    config_type = Options

== not finite: everything is finite float32 of the announced shapes
-> observation policy/speed: it is not finite
    def observe(self, world, state, key):
        policy = super().observe(world, state, key)["policy"]
        return {"policy": {**policy, "speed": jnp.log(jnp.zeros(1))}}

== constant: every term of every observation varies
-> observation policy/mass: it is constant, [1.], in 8 environments over 40 steps
    def observe(self, world, state, key):
        """`policy`: mass (1) kg."""
        return {"policy": {**super().observe(world, state, key)["policy"], "mass": jnp.ones(1)}}

== host randomness: a seed decides everything
-> a run: two runs with seed 3 differ from step 0 on
    def observe(self, world, state, key):
        draw = lambda _: np.random.rand(1).astype(np.float32)
        noise = jax.pure_callback(draw, jax.ShapeDtypeStruct((1,), jnp.float32), world.time, vmap_method="sequential")
        return {"policy": {**super().observe(world, state, key)["policy"], "speed": world.qvel + noise}}

== one start: starts are random across environments
-> the first observation of `policy`: 8 environments have 1 different ones; expected another one in each
    def reset(self, key):
        return ResetState(jnp.ones(1), jnp.zeros(1), State(jnp.zeros(()), jnp.zeros((), jnp.int32), jnp.ones(())))

== solved and failed: success is not failure
-> was solved and failed at once; expected success to exclude failure
    def outcome(self, world, state):
        return Outcome(world.qpos[0] > 0, world.qpos[0] > 0)

== repeats: an episode that follows begins afresh
-> episodes that follow: they begin exactly as those before
    def restart(self, key, state):
        return ResetState(state.start[None], jnp.zeros(1), dataclasses.replace(state, steps=jnp.zeros((), jnp.int32)))

== instances: a batch is so many single environments
-> environment 0: alone it observes other numbers at step 0 than among 8
    made = []

    def __init__(self, config=None, **changes):
        super().__init__(config, **changes)
        self.made.append(0)
        self.number = len(self.made)

    def reset(self, key):
        start = super().reset(key)
        return dataclasses.replace(start, qpos=start.qpos + self.number)

== two models: both models agree
-> body_mass: it differs in the model that is drawn
    built = []

    def build_spec(self):
        spec = super().build_spec()
        self.built.append(spec)
        spec.geoms[0].mass = len(self.built)
        return spec

== engine: every listed engine builds
-> engine 'mujuco': there is none of that name
    engines = ("mujoco", "mujuco")

== camera: the model has a camera
-> cameras: the model has none
    def build_spec(self):
        spec = super().build_spec()
        spec.delete(spec.cameras[0])
        return spec

== instruction: the task is said in words
-> language: there is none
    language = None

== undocumented term: observations are documented
-> observation policy/height: the docstring of observe does not name it
    def observe(self, world, state, key):
        return {"policy": {**super().observe(world, state, key)["policy"], "height": world.qpos}}

== undocumented term of several words: observations are documented
-> observation policy/width_of_gap: the docstring of observe does not name it
    def observe(self, world, state, key):
        return {"policy": {**super().observe(world, state, key)["policy"], "width_of_gap": world.qpos}}

== undocumented option: options are documented
-> option Options.width: it has no docstring
    @dataclasses.dataclass(frozen=True)
    class Options(TaskConfig):
        width: float = 1.0

    config_type = Options

== raises: reward terms are the weighted ones
-> the task: it raised task.py, line 67, in rewards: KeyError: 'tip'; expected no exception
    def rewards(self, world, state, action):
        return {"near": {}["tip"]}
'''
"""Faults: the name of each and of the check that finds it, what is said, and what is wrong in the class."""
FAULTS = {
    name: (check, said, body)
    for name, check, said, body in re.findall(r"^== (.+?): (.+)\n-> (.+)\n((?:(?!== ).*\n)*)", TOLD, re.MULTILINE)
}


def findings(check: Check, name: str) -> list[str]:
    """What a check says of a task in a file."""
    subject = make(name, NUM_ENVS, "mujoco", device="cpu") if check.simulated else join_content()[name].load()()
    return [str(finding) for finding in run_check(check, subject)]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_named(fault: str, tmp_path: Path) -> None:
    name, said, body = FAULTS[fault]
    file = tmp_path / "task.py"
    file.write_text(SOUND + "\n\nclass Faulty(Sound):" + '\n    """Push a mass. Success: there."""\n\n' + body)
    (check,) = (check for check in CHECKS if check.name == name)
    assert said in "\n".join(findings(check, f"{file}:Faulty"))


MEASURED = """
    engines = ("mujoco", "mjx")

    def build_spec(self):
        spec = super().build_spec()
        spec.bodies[1].add_site(name="here")
        spec.add_sensor(name="measured", type=mujoco.mjtSensor.mjSENS_{}, objtype=mujoco.mjtObj.mjOBJ_SITE,
                        objname="here", reftype=mujoco.mjtObj.mjOBJ_UNKNOWN)
        return spec

    def observe(self, world, state, key):
        return {{"policy": {{**super().observe(world, state, key)["policy"], "measured": world["measured"]}}}}
"""


@pytest.mark.parametrize(("sensor", "findings"), [("FRAMEPOS", 1), ("ACCELEROMETER", 0)])
def test_another_engine_is_to_measure_the_same_at_the_start_but_forces(
    sensor: str, findings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "task.py"
    file.write_text(SOUND + "\n\nclass Measured(Sound):" + MEASURED.format(sensor))
    env, other = (make(f"{file}:Measured", NUM_ENVS, "mujoco", device="cpu") for _ in range(2))
    there = other.world
    monkeypatch.setattr(
        other, "world", lambda: dataclasses.replace(there(), sensordata=np.asarray(there().sensordata) + 0.5)
    )
    monkeypatch.setattr(models, "make", lambda *_, **__: other)
    found = [str(finding) for finding in models.other_engines_step_too(env)]
    assert len(found) == findings
    assert all("first observation of measured on mjx: it differs from that on mujoco by 0.5" in one for one in found)


def test_every_check_that_a_task_can_fail_has_a_fault() -> None:
    by_the_environment = {"an episode is truncated exactly at its time limit", "other engines step too"}
    assert {check.name for check in CHECKS} - by_the_environment == {check for check, _, _ in FAULTS.values()}


def run(words: list[str]) -> int:
    try:
        return command.main(words)
    except SystemExit as stop:
        return int(stop.code or 0)


def test_a_sound_task_passes_and_the_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mass.py").write_text(SOUND)
    assert run([str(tmp_path / "mass.py"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["task"], document["passed"]) == ("mass.py:Sound", True)
    assert {row["verdict"] for row in document["checks"]} == {"passed"}


def test_a_fault_is_exit_code_1_and_advice_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty, quiet = tmp_path / "faulty.py", tmp_path / "quiet.py"
    faulty.write_text(SOUND.replace('{"near": 1.0}', '{"nearer": 1.0}'))
    quiet.write_text(SOUND.replace('Language.of("Push the mass to the goal.")', "None"))
    assert run([str(faulty)]) == 1
    said = capsys.readouterr().out
    assert "weight of 'nearer': no reward term has its name" in said
    assert "not run" in said
    unsimulated = tuple(check for check in CHECKS if not check.simulated)
    monkeypatch.setattr(contract, "CHECKS", unsimulated)  # the others would compile
    assert run([str(quiet)]) == 0
    assert "language: there is none" in capsys.readouterr().out
    assert run([str(quiet), "--strict"]) == 1


def test_a_suite_and_an_unknown_task_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mt10"]) == 2
    assert "mt10 is a suite; check one of its tasks" in capsys.readouterr().err
    assert run(["swarm/hovr"]) == 2
    assert "did you mean 'swarm/hover'" in capsys.readouterr().err
