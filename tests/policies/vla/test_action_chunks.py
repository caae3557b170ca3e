"""Chunks are carried out open loop, until a look is due or an episode begins."""

from __future__ import annotations

import dataclasses
from collections import UserDict

import pytest
import torch

from embodied.errors import EmbodiedError
from policies.vla.action_chunks import ChunkedPolicy
from policies.vla.model.config import Head
from tests.kit.vla import LEFT, RIGHT, SMALL, episode, shown, untrained

DEMONSTRATIONS = shown([episode(0), episode(1)])


class Counted(UserDict[str, torch.Tensor]):
    """Observations of three environments, which count how often pictures are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.looks = torch.Generator().manual_seed(0), 0
        self.renew()

    def renew(self) -> None:
        for camera in ("front", "wrist"):
            pixels = torch.randint(256, (3, 3, 32, 32), generator=self.generator, dtype=torch.uint8)
            self[f"pixels/{camera}"] = pixels
        self["proprio"] = torch.randn(3, 3, generator=self.generator)

    def __getitem__(self, group: str) -> torch.Tensor:
        self.looks += group == "pixels/front"
        return self.data[group]


def run(execute: int, begun: dict[int, list[bool]], steps: int = 7, temperature=None, head=Head.TOKENS):
    """Actions (steps, 3, A), whole chunks by what was seen at each step, and the steps at which it looked."""
    torch.manual_seed(0)
    policy = untrained(DEMONSTRATIONS, dataclasses.replace(SMALL, head=head), execute)
    time, looked, actions, plans = 0, [], [], []
    obs = Counted()
    never = [False] * 3
    rule = ChunkedPolicy(
        policy, [LEFT, RIGHT, LEFT], lambda: torch.tensor(begun.get(time, never)), temperature=temperature
    )
    words = policy.encode_instructions([LEFT, RIGHT, LEFT])
    with torch.no_grad():
        for time in range(steps):
            plans.append(policy.plan(obs.data, words, 0.0))
            before = obs.looks
            actions.append(rule(obs).clone())
            looked += [time] if obs.looks > before else []
            obs.renew()
    return torch.stack(actions), torch.stack(plans), looked


@pytest.mark.parametrize(("execute", "expected"), [(3, [0, 3, 6]), (1, [0, 1, 2, 3, 4, 5, 6]), (0, [0])])
def test_it_looks_only_when_the_actions_that_it_carries_out_have_run_out(execute, expected):
    actions, plans, looked = run(execute, {0: [True] * 3})
    assert looked == expected
    for time in range(7):
        last = max(look for look in expected if look <= time)
        torch.testing.assert_close(actions[time], plans[last][:, time - last])


def test_where_an_episode_begins_it_looks_afresh_and_the_others_go_on():
    actions, plans, looked = run(4, {0: [True] * 3, 2: [False, True, False]})
    assert looked == [0, 2, 4, 6]
    torch.testing.assert_close(actions[2, 1], plans[2][1, 0])
    torch.testing.assert_close(actions[2, 0], plans[0][0, 2])
    torch.testing.assert_close(actions[4, 0], plans[4][0, 0])
    torch.testing.assert_close(actions[5, 1], plans[2][1, 3])
    torch.testing.assert_close(actions[6, 1], plans[6][1, 0])


def test_it_is_deterministic_at_temperature_zero_and_by_its_seed_above():
    for head in Head:
        assert torch.equal(run(2, {}, 3, head=head)[0], run(2, {}, 3, head=head)[0])
        warm = run(2, {}, 3, temperature=1.0, head=head)[0]
        assert torch.equal(warm, run(2, {}, 3, temperature=1.0, head=head)[0])
        assert warm.abs().max() <= 1
    assert not torch.equal(run(2, {}, 3)[0], run(2, {}, 3, temperature=1.0)[0])


def test_an_episode_is_told_when_it_begins_and_hears_that_until_the_next():
    torch.manual_seed(0)
    policy, time, told = untrained(DEMONSTRATIONS, execute=2), 0, []

    def source(rows, obs):
        assert set(policy.groups) <= set(obs)
        told.append((time, rows.tolist()))
        return [RIGHT if time else LEFT] * len(rows)

    begun = {0: [True] * 3, 3: [False, True, False]}
    restarted = lambda: torch.tensor(begun.get(time, [False] * 3))  # noqa: E731
    rule, obs = ChunkedPolicy(policy, ["unheard"] * 3, restarted, source=source), Counted()
    heard, action = [], torch.empty(0)
    for time in range(5):
        action = rule(obs)
        heard = [LEFT, RIGHT if time >= 3 else LEFT, LEFT]
        assert rule.instructions == tuple(heard)
    assert told == [(0, [0, 1, 2]), (3, [1])]
    with torch.no_grad():  # the last look of all was at time 4; environment 1 looked at 3 and goes on
        plans = policy.plan(obs.data, policy.encode_instructions(heard), 0.0)
    torch.testing.assert_close(action, torch.stack([plans[0, 0], plans[1, 1], plans[2, 0]]))


def test_messages():
    with pytest.raises(EmbodiedError, match=r"execute=9; expected 1 to 8, the chunk's length, or 0 for all of it"):
        untrained(DEMONSTRATIONS, execute=9)
    policy = untrained(DEMONSTRATIONS)
    rule = ChunkedPolicy(policy, [LEFT], lambda: torch.tensor([False]))
    with pytest.raises(EmbodiedError, match="3 environments were observed, but 1 were told what to do"):
        rule(Counted())
