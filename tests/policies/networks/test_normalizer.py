import numpy as np
import pytest
import torch

from policies.networks.normalizer import Normalizer


def batches(offset: float = 0.0) -> list[torch.Tensor]:
    generator = np.random.default_rng(0)
    scale = np.array([1e-3, 1.0, 1e3])
    return [
        torch.from_numpy(offset + scale * generator.standard_normal((n, 3)) + scale).float() for n in (10, 1, 300, 57)
    ]


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_statistics_equal_numpy(offset: float):
    normalizer = Normalizer(3)
    for batch in batches(offset):
        normalizer.observe(batch)
        normalizer.commit()
    everything = torch.cat(batches(offset)).double().numpy()
    np.testing.assert_allclose(normalizer.mean, everything.mean(0), rtol=1e-6)
    np.testing.assert_allclose(1 / normalizer.scale, everything.std(0), rtol=1e-5)


def test_one_commit_equals_many():
    one, many = Normalizer(3), Normalizer(3)
    for batch in batches():
        one.observe(batch)
        many.observe(batch)
        many.commit()
    one.commit()
    for name, tensor in one.state().items():
        torch.testing.assert_close(many.state()[name], tensor, rtol=1e-12, atol=1e-12)


def test_output_has_mean_zero_deviation_one_and_is_clipped():
    generator = torch.Generator().manual_seed(0)
    obs = 5 + 3 * torch.randn(1000, 2, generator=generator)
    normalizer = Normalizer(2, clip=2.0)
    normalizer.observe(obs)
    normalizer.commit()
    normal = normalizer(obs)
    assert normal.abs().max() == 2.0
    np.testing.assert_allclose(normalizer.scale * (obs - normalizer.mean).std(0, correction=0), 1, rtol=1e-5)
    assert normal.mean().abs() < 0.02


def test_normalising_and_observing_change_nothing_before_the_commit():
    normalizer = Normalizer(3)
    obs = batches()[0]
    before = normalizer(obs)
    normalizer.observe(100 * obs)
    assert torch.equal(before, normalizer(obs))


def test_a_constant_component_maps_to_zero_whatever_it_is_elsewhere_and_counts_once_it_moves():
    normalizer = Normalizer(1)
    normalizer.observe(torch.full((10, 1), 7.0))
    normalizer.commit()
    assert normalizer(torch.tensor([[7.0], [7.5]])).tolist() == [[0.0], [0.0]]
    normalizer.observe(torch.full((10, 1), 8.0))
    normalizer.commit()
    np.testing.assert_allclose(normalizer(torch.tensor([[8.0]])), 1.0)


def test_adopted_statistics_scale_alike_and_stay_and_what_was_constant_is_learned():
    source, taker = Normalizer(2), Normalizer(2)
    source.observe(torch.stack([torch.full((10,), 7.0), torch.arange(10.0)], 1))
    source.commit()
    taker.adopt(source.mean, source.scale)
    torch.testing.assert_close(taker.scale, source.scale)
    generator = torch.Generator().manual_seed(0)
    seen = 3.0 + 2.0 * torch.randn(10_000, 2, generator=generator)
    for rows in seen.split(1000):
        taker.observe(rows)
        taker.commit()
    torch.testing.assert_close(taker(seen)[:, 1], source(seen)[:, 1], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(taker.mean[0], seen[:, 0].mean(), rtol=1e-4, atol=0)
    torch.testing.assert_close(1 / taker.scale[0], seen[:, 0].std(correction=0), rtol=1e-4, atol=0)
