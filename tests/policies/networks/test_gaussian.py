import torch
from torch.distributions import Independent, Normal, kl_divergence

from policies.networks import gaussian


def as_distribution(mean: torch.Tensor, log_std: torch.Tensor) -> Independent:
    return Independent(Normal(mean, log_std.exp().expand_as(mean)), 1)


def test_density_entropy_and_divergence_are_those_of_torch_distributions():
    generator = torch.Generator().manual_seed(0)
    old_mean, mean, action = torch.randn(3, 50, 4, generator=generator, dtype=torch.float64)
    old_log_std, log_std = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    old, new = as_distribution(old_mean, old_log_std), as_distribution(mean, log_std)
    density = gaussian.log_density(gaussian.standardize(action, mean, log_std), log_std)
    torch.testing.assert_close(density, new.log_prob(action))
    torch.testing.assert_close(gaussian.entropy(log_std).expand(50), new.entropy())
    torch.testing.assert_close(gaussian.kl(old_mean, old_log_std, mean, log_std), kl_divergence(old, new))
    assert gaussian.kl(mean, log_std, mean, log_std).abs().max() < 1e-12
