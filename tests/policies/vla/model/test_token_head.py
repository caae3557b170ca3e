"""Actions as tokens: round trips, and probabilities that are those of a categorical."""

import pytest
import torch

from policies.vla.model.token_head import TokenDistribution, TokenHead, detokenize, tokenize


@pytest.mark.parametrize("bins", [2, 7, 256])
def test_a_round_trip_ends_within_half_a_bin_and_every_bin_is_met(bins):
    action = torch.linspace(-1, 1, 10_001)
    tokens = tokenize(action, bins)
    assert (detokenize(tokens, bins) - action).abs().max() <= 1 / bins + 1e-6
    assert tokens.unique().tolist() == list(range(bins))
    assert torch.equal(tokenize(detokenize(tokens, bins), bins), tokens)
    assert tokenize(torch.tensor([-3.0, 3.0]), bins).tolist() == [0, bins - 1]


@pytest.mark.parametrize("temperature", [0.7, 1.6])
def test_probabilities_and_samples_are_those_of_the_categorical(temperature):
    logits = torch.randn(1, 2, 1, 5, generator=torch.Generator().manual_seed(1))
    distribution = TokenDistribution(logits, temperature)
    reference = torch.distributions.Categorical(logits=logits / temperature)
    tokens = distribution.sample(torch.Generator().manual_seed(0))
    torch.testing.assert_close(distribution.log_prob(tokens), reference.log_prob(tokens))
    torch.testing.assert_close(distribution.entropy(), reference.entropy())
    many = TokenDistribution(logits.expand(20_000, -1, -1, -1), temperature).sample(torch.Generator().manual_seed(0))
    shares = torch.nn.functional.one_hot(many, 5).float().mean(0)
    torch.testing.assert_close(shares, reference.probs[0], atol=0.015, rtol=0)


def test_temperature_zero_is_the_median_and_has_no_probability():
    distribution = TokenDistribution(torch.randn(3, 2, 1, 9), 0.0)
    tokens, shares = distribution.sample(), distribution.logits.softmax(-1)
    index = torch.arange(9)
    assert ((shares * (index <= tokens[..., None])).sum(-1) >= 0.5 - 1e-6).all()
    assert ((shares * (index < tokens[..., None])).sum(-1) < 0.5 + 1e-6).all()
    with pytest.raises(ValueError, match=r"temperature=0.0: probabilities need one above 0"):
        distribution.log_prob(distribution.sample())


def test_the_median_of_a_certain_distribution_is_its_token_and_of_one_to_a_side_lies_there():
    certain = torch.full((1, 1, 2, 5), -1e9)
    certain[..., 0, 4], certain[..., 1, 0] = 0.0, 0.0
    assert TokenDistribution(certain, 0.0).sample().tolist() == [[[4, 0]]]
    aside = torch.tensor([0.01, 0.01, 0.28, 0.25, 0.25, 0.2]).log()
    assert int(aside.argmax()) == 2
    assert TokenDistribution(aside[None, None, None], 0.0).sample().item() == 3


def test_the_loss_is_the_mean_negative_log_probability_and_a_fresh_head_is_undecided():
    head = TokenHead(8, 3, 16)
    features, action = torch.randn(4, 5, 8), torch.rand(4, 5, 3) * 2 - 1
    expected = -head.distribution(features).log_prob(tokenize(action, 16)).mean(-1)
    torch.testing.assert_close(head.loss(features, action), expected)
    assert head.distribution(features).entropy().mean() > 0.99 * torch.tensor(16.0).log()
