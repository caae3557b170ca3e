import copy
import itertools
import multiprocessing
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Dict
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.utils.passive_env_checker import data_shares_objects
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

from embodied.adapters.gymnasium import GymnasiumEnv, GymnasiumVectorEnv, gymnasium_id, register_gymnasium
from embodied.adapters.pettingzoo import PettingZooEnv
from embodied.adapters.tensors import TensorView
from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.errors import ActionError, EmbodiedError, UnknownNameError
from tests.kit.drones import MAX_STEPS, NUM_ENVS, brief_env, brief_world, lived, plan, seeing_world
from tests.kit.worlds import world


@pytest.fixture
def core():
    """The `Env` under the vector environments of this module."""
    return brief_world()


@pytest.fixture
def lone_core():
    """The `Env` under the single environments of this module."""
    return brief_world(1)


@pytest.fixture
def vector(core) -> GymnasiumVectorEnv:
    return GymnasiumVectorEnv(core)


@pytest.fixture
def single(lone_core) -> GymnasiumEnv:
    return GymnasiumEnv(lone_core)


def assert_close(ours, theirs, name: str = "") -> None:
    """Equal up to how XLA vectorises a batch of one and a batch of four."""
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4, err_msg=name)


def actions(steps: int) -> np.ndarray:
    return plan(steps).numpy()


def test_spaces_and_what_is_returned_agree(vector):
    assert vector.single_action_space == gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    assert vector.single_observation_space.shape == vector.env.observation_spec["policy"].shape
    assert vector.action_space.shape == (NUM_ENVS, 4)
    observation, infos = vector.reset(seed=1)
    assert observation in vector.observation_space
    assert infos == {}
    observation, reward, terminated, truncated, _ = vector.step(vector.action_space.sample())
    assert observation in vector.observation_space
    assert observation.dtype == reward.dtype == np.float32
    assert terminated.dtype == truncated.dtype == bool
    assert reward.shape == terminated.shape == truncated.shape == (NUM_ENVS,)


def test_any_observation_group_can_be_shown(core):
    critic = GymnasiumVectorEnv(core, group="critic")
    observation, _ = critic.reset(seed=1)
    assert observation.shape == (NUM_ENVS, *core.observation_spec["critic"].shape)
    with pytest.raises(UnknownNameError, match="unknown observation group 'critics'; did you mean 'critic'"):
        GymnasiumVectorEnv(core, group="critics")
    with pytest.raises(EmbodiedError, match="pixels/frnt"):
        GymnasiumVectorEnv(core, ("policy", "pixels/frnt"))


def test_equal_seeds_give_equal_episodes_and_other_seeds_do_not(vector):
    def episodes(seed: int) -> list[np.ndarray]:
        start = vector.reset(seed=seed)[0]
        steps = [vector.step(action)[0] for action in actions(MAX_STEPS + 5)]
        return [start, *steps, vector.reset()[0], vector.reset()[0]]

    first, again, other = episodes(3), episodes(3), episodes(4)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first[0], other[0])
    # A reset without a seed draws new starts instead of repeating those of the last seed.
    starts = [first[0], first[-2], first[-1]]
    assert len(np.unique(np.concatenate(starts), axis=0)) == 3 * NUM_ENVS


def test_seeds_beyond_64_bits_are_taken(vector):
    a, b = vector.reset(seed=2**70 + 1)[0], vector.reset(seed=2**70 + 2)[0]
    assert not np.allclose(a, b)


def test_every_environment_has_a_seed_of_its_own(vector, lone_core):
    """As in Gymnasium's own vector environments: environment i begins as a single one does with its seed."""
    alone = GymnasiumEnv(lone_core)
    starts = np.stack([alone.reset(seed=4 + number)[0] for number in range(NUM_ENVS)])
    together = vector.reset(seed=4)[0]
    np.testing.assert_allclose(together, starts, rtol=2e-5, atol=2e-5)  # one by one they are rounded otherwise
    backwards = [4 + NUM_ENVS - 1 - number for number in range(NUM_ENVS)]
    np.testing.assert_array_equal(vector.reset(seed=backwards)[0], together[::-1])
    with pytest.raises(EmbodiedError, match=rf"1 seeds; expected {NUM_ENVS}"):
        vector.reset(seed=[4])


@pytest.mark.parametrize("kind", ["vector", "single"])
@pytest.mark.parametrize("seed", [-1, 1.5, "1", [], [1, None], ["a"] * NUM_ENVS, {"a": 1}, b"ab"])
def test_what_is_no_seed_is_refused_in_a_line(kind, seed, request):
    with pytest.raises((EmbodiedError, gymnasium.error.Error), match=r"(?i)seed") as refused:
        request.getfixturevalue(kind).reset(seed=seed)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("action", ["left", None, {}, [[0.0], [0.0, 1.0]], np.zeros(4, complex), np.array(["a"])])
def test_what_is_no_action_is_refused_in_a_line(action, single):
    single.reset(seed=0)
    with pytest.raises(ActionError, match=r"^action ") as refused:
        single.step(action)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("task", ["drones", "one agent"])
@pytest.mark.parametrize("action", [None, 0.0, [[0.0] * 4] * NUM_ENVS, torch.zeros(()), torch.zeros(NUM_ENVS, 9)])
def test_what_is_no_tensor_of_actions_is_refused_in_a_line(task, action):
    """By the part that the adapters for rsl_rl, skrl and TorchRL share; also where the task has an axis of agents."""
    env = brief_world() if task == "drones" else world("swarm/landing", "mujoco")
    with pytest.raises(ActionError, match=r"^action .*; expected .*\(\d, \d\)$"):
        TensorView(env, "policy", "skrl").action(action)


@pytest.mark.parametrize("adapt", [GymnasiumEnv, GymnasiumVectorEnv, PettingZooEnv])
@pytest.mark.parametrize("value", [None, 3, "swarm/hover", ()])
def test_what_is_no_environment_is_refused_in_a_line(adapt, value):
    with pytest.raises(EmbodiedError, match=r"^env is .*; expected an environment that embodied.make built$"):
        adapt(value)


def test_first_reset_takes_the_seed_that_env_was_made_with(core):
    with_seed = GymnasiumVectorEnv(core).reset(seed=core.seed)[0]
    np.testing.assert_array_equal(GymnasiumVectorEnv(core).reset()[0], with_seed)


def test_final_observation_is_that_of_env(core):
    """The same seed and actions on the bare `Env` lead to the same final observations, rewards and flags."""
    _, steps = lived(core, [11 + number for number in range(NUM_ENVS)], plan())
    vector = GymnasiumVectorEnv(core)
    vector.reset(seed=11)
    ends = {"terminated": 0, "truncated": 0}
    for action, step in zip(actions(3 * MAX_STEPS), steps, strict=True):
        told = (step.obs["policy"], step.final_obs["policy"], step.reward, step.terminated, step.truncated)
        obs, final_obs, reward, terminated, truncated = (tensor.numpy() for tensor in told)
        got = vector.step(action)
        for ours, theirs in zip(got[:4], (obs, reward, terminated, truncated), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        done = terminated | truncated
        ends["terminated"] += terminated.sum()
        ends["truncated"] += truncated.sum()
        assert ("final_obs" in got[4]) == ("final_info" in got[4]) == done.any()
        if done.any():
            np.testing.assert_array_equal(got[4]["_final_obs"], done)
            assert [row is not None for row in got[4]["final_obs"]] == done.tolist()
            np.testing.assert_array_equal(np.stack(got[4]["final_obs"][done]), final_obs[done])
            assert not np.allclose(final_obs[done], obs[done])
    assert min(ends.values()) > 0, f"the drones should end both ways, or this test shows little: {ends}"


def test_infos_are_those_of_gymnasiums_own_vector_environment(vector, lone_core):
    """`SyncVectorEnv` in same-step mode is the reference; environment 0 even lives through the same episodes."""

    def record(env: VectorEnv) -> list[dict]:
        rows, env = [], DictInfoToList(env)
        assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
        env.reset(seed=2)
        for action in actions(2 * MAX_STEPS):
            observation, reward, terminated, truncated, infos = env.step(action[: env.num_envs])
            rows.append({"obs": observation[0], "reward": reward[0], "end": [terminated[0], truncated[0]], **infos[0]})
        return rows

    reference = SyncVectorEnv([lambda: GymnasiumEnv(lone_core)], autoreset_mode=AutoresetMode.SAME_STEP)
    finals = 0
    for ours, theirs in zip(record(vector), record(reference), strict=True):
        assert ours.keys() == theirs.keys()
        for name in ours.keys() - {"final_info"}:
            assert_close(ours[name], theirs[name], name)
        if "final_info" in ours:
            finals += 1
            assert ours["final_info"].pop("episode").keys() == {"r", "l", "t"}
            assert ours["final_info"] == pytest.approx(theirs["final_info"], rel=1e-3, abs=1e-4)
    assert finals >= 2


def test_gymnasiums_episode_statistics_agree_with_ours(vector):
    recorder = RecordEpisodeStatistics(vector)
    recorder.reset(seed=0)
    ended = 0
    for action in actions(3 * MAX_STEPS):
        *_, infos = recorder.step(action)
        if "episode" in infos:
            ours, mask = infos["final_info"]["episode"], infos["_episode"]
            ended += mask.sum()
            np.testing.assert_array_equal(infos["_final_info"], mask)
            np.testing.assert_array_equal(ours["l"], infos["episode"]["l"])
            np.testing.assert_allclose(ours["r"], infos["episode"]["r"], rtol=1e-5, atol=1e-5)
            assert (ours["t"][mask] > 0).all()
    assert ended == recorder.episode_count >= 3 * NUM_ENVS


def test_what_is_returned_belongs_to_the_caller(vector):
    """Neither writing into results nor into the action just given changes what follows."""

    def trajectory(spoil: bool) -> list:
        kept = []
        observation, _ = vector.reset(seed=6)
        for action in actions(MAX_STEPS + 2):
            action = action.copy()
            result = vector.step(action)
            kept.append(copy.deepcopy(result[:4]))
            if spoil:
                action[:] = np.nan
                observation[:] = np.nan
                for array in result[:4]:
                    array[:] = 0
            observation = result[0]
        return kept

    assert data_equivalence(trajectory(spoil=False), trajectory(spoil=True), exact=True)
    calls = [vector.reset(seed=6), *(vector.step(action) for action in actions(MAX_STEPS + 2))]
    for earlier, later in itertools.pairwise(calls):
        assert not data_shares_objects(earlier[0], later[0])
        assert not data_shares_objects(earlier[-1], later[-1])


def test_closing_an_adapter_closes_its_environment():
    env = brief_env(1)
    GymnasiumEnv(env).close()
    assert "closed" in repr(env)


@pytest.mark.parametrize("kind", ["vector", "single"])
def test_misuse_is_refused_in_gymnasiums_terms(kind, request):
    env = request.getfixturevalue(kind)
    action = np.zeros(env.action_space.shape, np.float32)
    with pytest.raises(ResetNeeded, match=r"step\(\) before reset\(\)"):
        env.step(action)
    with pytest.raises(EmbodiedError, match="unknown reset option 'wind'"):
        env.reset(options={"wind": 3})
    with pytest.raises(EmbodiedError, match=r"options=1.5; expected a mapping"):
        env.reset(options=1.5)
    env.reset(seed=0, options={})
    with pytest.raises(ActionError, match=r"shape .*5,?\).*expected .*4,?\)"):
        env.step(np.zeros((*action.shape[:-1], 5)))
    with pytest.raises(ActionError, match="not finite"):
        env.step(np.full_like(action, np.nan))
    env.close()
    env.close()
    for call in (lambda: env.step(action), env.reset):
        with pytest.raises(ClosedEnvironmentError):
            call()


def test_single_environment_leaves_the_reset_to_the_caller(single):
    def fly() -> tuple[np.ndarray, dict]:
        for action in actions(MAX_STEPS)[:, 0]:
            observation, _, terminated, truncated, info = single.step(action)
            if terminated or truncated:
                assert terminated != truncated
                return observation, info
            assert info.keys() == {"success"}
        raise AssertionError(f"no episode should outlive {MAX_STEPS} steps")

    starts = [single.reset(seed=9)[0]]
    for _ in range(2):
        final, info = fly()
        assert info.keys() > {"success", "success_any", "diverged", "position_error"}
        with pytest.raises(ResetNeeded, match="the episode is over"):
            single.step(actions(1)[0, 0])
        starts.append(single.reset()[0])
        assert not np.allclose(starts[-1], final)
    assert len(np.unique(starts, axis=0)) == 3
    np.testing.assert_array_equal(single.reset(seed=9)[0], starts[0])


def test_single_environment_needs_one_environment(core):
    with pytest.raises(EmbodiedError, match="num_envs=4; GymnasiumEnv expects 1"):
        GymnasiumEnv(core)


def test_gymnasiums_checker_passes(single):
    with pytest.warns(UserWarning, match="infinity") as warnings:
        check_env(single)
    # Observations are truly unbounded, and an environment that was not made by id has no spec.
    expected = ("minimum value is -infinity", "maximum value is infinity", "not having a spec")
    assert [str(w.message) for w in warnings if not any(part in str(w.message) for part in expected)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["by id", "cameras", "swarm/trajectory", "swarm/landing", "swarm/gate-race"])
def test_gymnasiums_checks_accept_cameras_one_agent_and_what_is_made_by_id(name):
    """With a spec they also check that seeds fix every episode, bit for bit."""
    if name == "by id":
        register_gymnasium()
        env = gymnasium.make("embodied/swarm-hover-v0", engine="rigid", mass_spread=0.0).unwrapped
    elif name == "cameras":
        env = GymnasiumEnv(seeing_world(1), ("policy", "pixels/front"))
    else:
        env = GymnasiumEnv(make(name, seed=0))
    check_env(env, skip_render_check=True)


def test_stable_baselines_checker_passes(single):
    check = pytest.importorskip("stable_baselines3.common.env_checker").check_env
    check(single)


def test_every_task_has_a_gymnasium_id():
    ids = register_gymnasium()
    assert register_gymnasium() == ids
    assert set(ids) == {gymnasium_id(name) for name in join_content()}
    assert len(ids) == len(join_content())
    assert "embodied/swarm-hover-v0" in ids
    assert set(ids) <= set(gymnasium.registry)
    for name in ids:
        spec = gymnasium.spec(name)
        assert type(spec).from_json(spec.to_json()).kwargs == spec.kwargs


def test_environments_are_made_by_id():
    register_gymnasium()
    env, other = (gymnasium.make("embodied/swarm-hover-v0", engine="rigid", mass_spread=0.0) for _ in range(2))
    assert isinstance(env.unwrapped, GymnasiumEnv)
    assert isinstance(other.unwrapped, GymnasiumEnv)
    assert env.unwrapped.env.task.config.mass_spread == 0.0
    assert env.unwrapped.env.seed != other.unwrapped.env.seed
    with pytest.raises(EmbodiedError, match="has no field 'mas_spread'; did you mean 'mass_spread'"):
        gymnasium.make("embodied/swarm-hover-v0", mas_spread=0.0)


def test_render_draws_each_environment(core):
    with pytest.raises(UnknownNameError, match="unknown render mode 'human'; known: rgb_array"):
        GymnasiumVectorEnv(core, render_mode="human")
    env = GymnasiumVectorEnv(core, render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match=r"render\(\) before reset\(\)"):
        env.render()
    env.reset(seed=0)
    try:
        frames = env.render()
    except EmbodiedError as error:
        pytest.skip(str(error))
    assert frames is not None
    assert [(frame.shape, frame.dtype) for frame in frames] == [((360, 640, 3), np.uint8)] * NUM_ENVS
    assert not np.array_equal(frames[0], frames[1])
    env.close()


def test_render_without_a_mode_warns(vector):
    vector.reset(seed=0)
    with pytest.warns(UserWarning, match="without a render mode"):
        assert vector.render() is None


def test_vector_environments_are_made_by_id(recwarn):
    env = gymnasium.make_vec(
        "embodied.adapters.gymnasium_ids:embodied/swarm-hover-v0", num_envs=3, engine="rigid", seed=12
    )
    assert isinstance(env, GymnasiumVectorEnv)
    assert (env.num_envs, env.env.num_envs, env.env.seed, env.env.engine_name) == (3, 3, 12, "rigid")
    assert not [w for w in recwarn if "autoreset" in str(w.message).lower()]


def test_tasks_of_many_agents_belong_to_pettingzoo() -> None:
    with pytest.raises(EmbodiedError, match=r"this task has 8 agents, and Gymnasium takes one; use .*parallel_env"):
        GymnasiumVectorEnv(make("swarm/swap", 1, "rigid"))


def test_a_process_that_was_forked_after_jax_refuses_instead_of_waiting_for_ever():
    env = brief_env(1)
    env.reset()
    action = torch.zeros(env.action_shape)
    receive, send = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        for call in (lambda: make("swarm/hover"), env.reset, lambda: env.step(action)):
            try:
                call()
            except EmbodiedError as error:
                send.send(str(error))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python and JAX warn of forks themselves
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
    for _ in range(3):
        assert receive.poll(30)
        assert 'context="spawn"' in receive.recv()
    process.join(30)


def test_a_task_with_one_agent_has_no_axis_of_agents_and_lives_through_what_the_environment_does() -> None:
    """The adapter's numbers are those of `Env`, agent 0's."""
    core = world("swarm/landing", "mujoco")
    tape = torch.full((4, *core.action_shape), 0.1)
    _, steps = lived(core, [3 + number for number in range(core.num_envs)], tape)
    vector = GymnasiumVectorEnv(core)
    assert vector.single_action_space.shape == (core.action_size,)
    assert vector.single_observation_space.shape == core.observation_spec["policy"].shape[1:]
    vector.reset(seed=3)
    for action, step in zip(tape, steps, strict=True):
        observation, reward, *_ = vector.step(action[:, 0].numpy())
        assert observation in vector.observation_space
        assert reward.shape == (core.num_envs,)
        np.testing.assert_array_equal(observation, step.obs["policy"][:, 0].numpy())
        np.testing.assert_array_equal(reward, step.reward[:, 0].numpy())


def test_cameras_are_a_dictionary() -> None:
    groups, plain = ("policy", "pixels/front"), seeing_world()
    pixels = plain.reset([0, 1, 2])["pixels/front"].permute(0, 2, 3, 1).numpy()
    vector = GymnasiumVectorEnv(plain, groups)
    assert isinstance(vector.single_observation_space, Dict)
    assert vector.single_observation_space["pixels/front"].shape == (16, 24, 3)
    observation, _ = vector.reset(seed=0)
    assert observation in vector.observation_space
    np.testing.assert_array_equal(observation["pixels/front"], pixels)
    vector.env.episode_length = torch.full((3,), vector.env.max_episode_steps - 1)
    observation, *_, infos = vector.step(np.zeros((3, vector.env.action_size), np.float32))
    assert observation in vector.observation_space
    assert infos["final_obs"][0] in vector.single_observation_space
