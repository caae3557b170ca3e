"""Low-rank updates begin at nothing, learn alone, and merge into what they are around."""

import pytest
import torch
from torch import nn

from policies.vla.model.lora import LowRank, adapt, merge


def test_they_begin_at_nothing_learn_alone_and_merge():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 4, bias=False)))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    x = torch.randn(5, 6)
    expected = module(x).detach()
    assert torch.equal(adapt(module, 2)(x), expected)
    learning = {name for name, p in module.named_parameters() if p.requires_grad}
    assert learning == {"0.down", "0.up", "2.0.down", "2.0.up"}
    optimizer = torch.optim.SGD((p for p in module.parameters() if p.requires_grad), 0.5)
    for _ in range(3):
        optimizer.zero_grad()
        module(x).square().sum().backward()
        optimizer.step()
    assert torch.equal(module.get_parameter("0.linear.weight"), before["0.weight"])
    changed = module(x).detach()
    assert (changed - expected).abs().max() > 1e-3
    torch.testing.assert_close(merge(module)(x), changed)
    assert module.state_dict().keys() == before.keys()


def test_a_rank_that_is_none_is_refused():
    with pytest.raises(ValueError, match="rank=9: expected 1 to 4"):
        LowRank(nn.Linear(8, 4), 9)
