"""The five classic bodies with Gymnasium v5's observations, rewards and terminations."""
