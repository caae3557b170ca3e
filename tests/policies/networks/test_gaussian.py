import torch
from torch.distributions import Independent, Normal, kl_divergence

from policies.networks import gaussian


def sample() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    old_mean, mean, action = torch.randn(3, 50, 4, generator=generator, dtype=torch.float64)
    old_log_std, log_std = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    return action, old_mean, old_log_std, mean, log_std


def as_distribution(mean: torch.Tensor, log_std: torch.Tensor) -> Independent:
    return Independent(Normal(mean, log_std.exp().expand_as(mean)), 1)


def test_log_prob_equals_torch_distributions():
    action, _, _, mean, log_std = sample()
    torch.testing.assert_close(
        gaussian.log_density(gaussian.standardize(action, mean, log_std), log_std),
        as_distribution(mean, log_std).log_prob(action),
    )


def test_entropy_equals_torch_distributions():
    *_, mean, log_std = sample()
    torch.testing.assert_close(gaussian.entropy(log_std).expand(50), as_distribution(mean, log_std).entropy())


def test_kl_equals_torch_distributions():
    _, old_mean, old_log_std, mean, log_std = sample()
    expected = kl_divergence(as_distribution(old_mean, old_log_std), as_distribution(mean, log_std))
    torch.testing.assert_close(gaussian.kl(old_mean, old_log_std, mean, log_std), expected)


def test_kl_of_a_gaussian_from_itself_is_zero():
    _, mean, log_std, _, _ = sample()
    assert gaussian.kl(mean, log_std, mean, log_std).abs().max() < 1e-12
