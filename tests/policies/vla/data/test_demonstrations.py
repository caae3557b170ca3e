"""Demonstrations: what fits together, what is held out, what a moment holds."""

import dataclasses

import numpy as np
import pytest
import torch

from embodied.errors import EmbodiedError, UnknownNameError
from policies.vla.data.chunk_dataset import ChunkDataset
from policies.vla.data.demonstrations import EpisodeSelection
from policies.vla.data.normalization import Normalization
from tests.kit.vla import RIGHT, episode, shown


def test_a_moment_is_what_was_seen_and_what_was_done_from_then_on():
    episodes = [episode(0, length=5), episode(1, length=9, instruction=RIGHT)]
    dataset = ChunkDataset(episodes, ("wrist", "front"), chunk=4)
    assert len(dataset) == 14
    batch = dataset.batch(torch.tensor([3, 5, 13]))
    for row, (which, time) in enumerate([(0, 3), (1, 0), (1, 8)]):
        recorded = episodes[which]
        for place, camera in enumerate(("wrist", "front")):
            assert np.array_equal(batch.pixels[row, place].numpy(), recorded.images[camera][time])
        assert np.array_equal(batch.state[row].numpy(), recorded.state[time])
        assert dataset.instructions[batch.instruction[row]] == recorded.instruction
        ahead = np.minimum(time + np.arange(4), len(recorded) - 1)
        assert np.array_equal(batch.action[row].numpy(), recorded.action[ahead])
        assert batch.valid[row].tolist() == [time + k < len(recorded) for k in range(4)]


def test_every_task_lends_the_same_share_of_its_episodes_but_never_all():
    tasks = ["toy/a"] * 10 + ["toy/b"] * 5 + ["toy/c"]
    demonstrations = shown([episode(i, length=2, task=task) for i, task in enumerate(tasks)])
    train, apart = demonstrations.split(0.2, seed=0)
    assert sorted(e.task for e in apart) == ["toy/a"] * 2 + ["toy/b"]
    assert len(train) == 13
    assert not {id(e) for e in train} & {id(e) for e in apart}
    assert demonstrations.split(0.2, seed=0)[1] == apart
    assert demonstrations.split(0.2, seed=1)[1] != apart
    assert demonstrations.split(0.0, seed=0) == (demonstrations.episodes, ())


def test_statistics_undo_themselves_and_do_not_magnify_what_hardly_moves():
    generator = np.random.default_rng(0)
    action = generator.uniform(-0.5, 0.25, (2_000, 2)).astype(np.float32)
    action[:, 1] = 1.0
    normalization = Normalization.of([episode(0, length=2_000, action=action)])
    torch.testing.assert_close(normalization.action_low[0], torch.tensor(-0.4925), atol=2e-2, rtol=0)
    torch.testing.assert_close(normalization.action_high[0], torch.tensor(0.2425), atol=2e-2, rtol=0)
    inside = torch.tensor([[-0.3, 1.0], [0.1, 0.995]])
    torch.testing.assert_close(normalization.denormalize_action(normalization.normalize_action(inside)), inside)
    assert normalization.action_high[1] - normalization.action_low[1] == pytest.approx(0.02)
    unit = normalization.normalize_state(torch.from_numpy(episode(0, length=2_000, action=action).state))
    torch.testing.assert_close(unit.mean(0), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(unit.std(0), torch.ones(3), atol=1e-2, rtol=0)


def test_places_are_known_where_every_episode_tells_them():
    plain = [episode(0, length=2), episode(1, length=2)]
    told = [dataclasses.replace(each, keypoints={"front": np.zeros((2, 4), np.float32)}) for each in plain]
    for episodes, points, silent in ((plain, 0, 0), (told, 2, 0), ([told[0], plain[1]], 0, 1)):
        demonstrations = shown(episodes)
        assert (demonstrations.keypoints, demonstrations.without_keypoints) == (points, silent)


def test_failures_are_left_out_unless_they_are_asked_for():
    episodes = [episode(0), episode(1, success=False)]
    assert len(shown(episodes).episodes) == 1
    assert len(shown(iter(episodes), failures=True).episodes) == 2
    with pytest.raises(EmbodiedError, match="none of 1 demonstrated episodes succeeded"):
        shown(episodes[1:])


def test_the_fingerprint_knows_an_action_that_changed():
    one, other = episode(0), episode(0)
    assert shown([one]).fingerprint == shown([other]).fingerprint
    other.action[3, 0] += 0.1
    assert shown([one]).fingerprint != shown([other]).fingerprint


def test_episodes_that_do_not_fit_together_are_named_with_the_difference():
    first = episode(0)
    fewer = dataclasses.replace(first, images={"front": first.images["front"]})
    with pytest.raises(EmbodiedError, match=r"episode 1 \(toy/left\) has cameras front, expected front, wrist, unlike"):
        shown([first, fewer])
    longer = dataclasses.replace(first, action=np.zeros((12, 5), np.float32))
    with pytest.raises(EmbodiedError, match="has action_size 5, expected 2"):
        shown([first, longer])
    floats = dataclasses.replace(first, images={"front": np.zeros((12, 32, 32, 3), np.float32)})
    with pytest.raises(EmbodiedError, match=r"types \['float32'\]; expected one or more cameras of the same"):
        shown([floats])
    with pytest.raises(EmbodiedError, match="instruction '' says nothing"):
        shown([first, episode(1, instruction="")])


ROWS = [
    episode(number, length=1, task=task, success=success)
    for number, (task, success) in enumerate(
        [("toy/a", False), ("toy/b", True), ("toy/a", True), ("toy/c", False), ("toy/a", True), ("toy/b", True)]
    )
]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (EpisodeSelection(failures=True), (0, 1, 2, 3, 4, 5)),
        (EpisodeSelection(), (1, 2, 4, 5)),
        (EpisodeSelection(("toy/b", "toy/a"), 1), (1, 2)),
        (EpisodeSelection(("toy/a",), 2), (2, 4)),
        (EpisodeSelection(per_task=1, failures=True), (0, 1, 3)),
    ],
)
def test_the_first_of_each_task_in_their_order(chosen, expected):
    assert chosen.indices(ROWS) == expected


def test_messages_of_a_selection():
    with pytest.raises(UnknownNameError, match="unknown task among the demonstrations 'toy/d'"):
        EpisodeSelection(("toy/d",)).indices(ROWS)
    with pytest.raises(EmbodiedError, match="'toy/a' has 2 successful episodes; 3 of each task were asked for"):
        EpisodeSelection(("toy/a", "toy/b"), 3).indices(ROWS)
    with pytest.raises(EmbodiedError, match="none of 1 demonstrated episodes succeeded; there is nothing to learn"):
        EpisodeSelection().indices(ROWS[:1])
