import torch

from policies.ppo.rollout_buffer import Rollout


def identifiable(steps: int, num_envs: int) -> Rollout:
    """A rollout in which every number of transition i is i."""
    sizes = {"policy": 3, "critic": 5}
    rollout = Rollout(steps, num_envs, sizes, 2, actor_group="policy", critic_group="critic")
    number = torch.arange(steps * num_envs, dtype=torch.float32).view(steps, num_envs)
    for buffer in (rollout.actor_obs, rollout.critic_obs, rollout.action, rollout.mean):
        buffer.copy_(number[..., None].expand_as(buffer))
    for buffer in (rollout.log_prob, rollout.value, rollout.advantage, rollout.returns):
        buffer.copy_(number)
    return rollout


def test_minibatches_visit_every_transition_once():
    rollout = identifiable(steps=5, num_envs=7)
    minibatches = list(rollout.minibatches(4, torch.Generator().manual_seed(0)))
    assert sorted(len(index) for index in minibatches) == [8, 9, 9, 9]
    assert sorted(torch.cat(minibatches).tolist()) == list(range(35))


def test_gathered_rows_belong_together():
    rollout = identifiable(steps=5, num_envs=7)
    for index in rollout.minibatches(3, torch.Generator().manual_seed(0)):
        for rows in filter(torch.is_tensor, (*rollout.actor_batch(index), *rollout.critic_batch(index))):
            assert rows.is_contiguous()
            assert torch.equal(rows.reshape(len(index), -1), index[:, None].expand(-1, rows[0].numel()).float())


def test_groups_are_stored_once_where_the_critic_reads_what_the_actor_reads():
    rollout = Rollout(2, 3, {"policy": 4}, 1, actor_group="policy", critic_group="policy")
    assert rollout.actor_obs is rollout.critic_obs
