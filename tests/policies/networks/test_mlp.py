import pytest
import torch

from policies.networks.mlp import MLP, Activation, Critic, GaussianActor, NetworkConfig, orthogonal


@pytest.mark.parametrize("activation", Activation)
def test_layers_and_activation(activation: Activation):
    mlp = MLP(5, 3, NetworkConfig((8, 4), activation))
    assert [tuple(p.shape) for p in mlp.parameters()] == [(8, 5), (8,), (4, 8), (4,), (3, 4), (3,)]
    x = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    function = getattr(torch.nn.functional, activation)
    hidden = function(mlp[2](function(mlp[0](x))))
    torch.testing.assert_close(mlp(x), mlp[4](hidden))


def test_weights_are_orthogonal_and_the_last_layer_small():
    mlp = MLP(8, 4, NetworkConfig((8,), output_gain=0.01))
    first, last = (p.detach() for p in mlp.parameters() if p.ndim == 2)
    torch.testing.assert_close(first @ first.T, 2 * torch.eye(8))
    torch.testing.assert_close(last @ last.T, 1e-4 * torch.eye(4))


def test_a_generator_fixes_the_weights_and_spares_the_global_one():
    before = torch.get_rng_state()
    first, second = (MLP(3, 2, NetworkConfig(), torch.Generator().manual_seed(1)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert torch.equal(before, torch.get_rng_state())


def test_actor_and_critic_shapes():
    actor, critic = GaussianActor(5, 3, NetworkConfig(), initial_std=0.5), Critic(5, NetworkConfig())
    assert actor(torch.zeros(7, 5)).shape == (7, 3)
    assert critic(torch.zeros(7, 5)).shape == (7,)
    torch.testing.assert_close(actor.log_std.exp(), torch.full((3,), 0.5))
    assert len(MLP(3, 2, NetworkConfig(()))) == 1  # a linear map


def test_initial_weights_do_not_depend_on_the_number_of_threads():
    threads, drawn = torch.get_num_threads(), []
    for count in (1, 2):
        torch.set_num_threads(count)
        drawn.append([orthogonal(shape, 1.0, torch.Generator().manual_seed(0)) for shape in ((64, 64), (256, 256))])
    torch.set_num_threads(threads)
    assert all(one.equal(two) for one, two in zip(*drawn, strict=True))
