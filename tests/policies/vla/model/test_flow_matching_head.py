"""The flow head: both ways to act are sampled, and their mean is not."""

import pytest
import torch

from policies.networks.optim.flat_parameters import FlatAdamW
from policies.vla.model.flow_matching_head import FlowHead


@pytest.mark.parametrize(
    ("updates", "rate", "clear", "even"),
    [(50, 5e-3, 0.6, 0.2), pytest.param(150, 2e-3, 0.9, 0.15, marks=pytest.mark.slow)],
)
def test_two_ways_to_act_are_both_sampled_and_never_mixed_within_a_chunk(updates, rate, clear, even):
    torch.manual_seed(0)
    head, noise = FlowHead(4, 1, 2, steps=8), torch.Generator().manual_seed(0)
    optimizer = FlatAdamW(head.parameters(), rate)
    features = torch.zeros(128, 2, 4)
    for _ in range(updates):
        side = (torch.rand(128, 1, 1, generator=noise) < 0.5).float() * 1.2 - 0.6
        optimizer.descend(head.loss(features, side.expand(-1, 2, -1), noise).mean())
    with torch.no_grad():
        chunks = head.sample(features, 1.0, noise)[..., 0]
        assert torch.equal(head.sample(features, 0.0, noise), head.sample(features, 0.0, noise))
    near = (chunks.abs() - 0.6).abs().amax(1) < 0.2
    assert near.float().mean() > clear
    assert (chunks[near, 0].sign() == chunks[near, 1].sign()).all()
    assert (chunks[near, 0] > 0).float().mean() == pytest.approx(0.5, abs=even)
