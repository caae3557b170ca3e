import pytest
import torch
from torch import Tensor

from policies.ppo.gae import gae


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def flags(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.bool)[:, None]


def test_one_termination_and_one_truncation_by_hand():
    # Six steps of one environment: an episode fails at step 1, the next is cut by the time limit at step 3.
    advantage, returns = gae(
        reward=column(1, 2, 3, 4, 5, 6), value=column(10, 20, 30, 40, 50, 60),
        last_value=torch.tensor([70.0], dtype=torch.float64),
        final_value=column(-1, -1, -1, 8, -1, -1),  # -1 must never be read
        terminated=flags(0, 1, 0, 0, 0, 0), truncated=flags(0, 0, 0, 1, 0, 0), gamma=0.5, lam=0.5,
    )  # fmt: skip
    a5 = 6 + 0.5 * 70 - 60  # = -19, bootstrapped from the observation after the rollout
    a4 = (5 + 0.5 * 60 - 50) + 0.25 * a5  # = -15 - 4.75 = -19.75
    a3 = 4 + 0.5 * 8 - 40  # = -32, bootstrapped from the terminal observation, and cut from a4
    a2 = (3 + 0.5 * 40 - 30) + 0.25 * a3  # = -7 - 8 = -15
    a1 = 2 - 20  # = -18, nothing follows a failure
    a0 = (1 + 0.5 * 20 - 10) + 0.25 * a1  # = 1 - 4.5 = -3.5
    assert (a0, a1, a2, a3, a4, a5) == (-3.5, -18, -15, -32, -19.75, -19)
    torch.testing.assert_close(advantage, column(a0, a1, a2, a3, a4, a5), rtol=0, atol=0)
    torch.testing.assert_close(returns, column(6.5, 2, 15, 8, 30.25, 41), rtol=0, atol=0)


def test_failure_outweighs_the_time_limit():
    advantage, _ = gae(column(1), column(2), torch.tensor([9.0]), column(9), flags(1), flags(1), gamma=0.9, lam=0.9)
    assert advantage.item() == 1 - 2


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_extremes_of_lambda(lam: float):
    generator = torch.Generator().manual_seed(0)
    reward, value = torch.randn(2, 7, 3, generator=generator, dtype=torch.float64)
    last = torch.randn(3, generator=generator, dtype=torch.float64)
    never = torch.zeros(7, 3, dtype=torch.bool)
    _, returns = gae(reward, value, last, value, never, never, gamma=0.9, lam=lam)
    following = torch.cat([value[1:], last[None]])
    if lam == 0.0:  # One step, then the critic.
        expected = reward + 0.9 * following
    else:  # All rewards, then the critic once.
        expected = torch.stack(
            [sum(0.9 ** (k - t) * reward[k] for k in range(t, 7)) + 0.9 ** (7 - t) * last for t in range(7)]
        )
    torch.testing.assert_close(returns, expected)
