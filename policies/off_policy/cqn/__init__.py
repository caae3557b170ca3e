"""CQN: coarse-to-fine Q-network."""
