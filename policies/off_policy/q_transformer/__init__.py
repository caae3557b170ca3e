"""Q-Transformer: autoregressive Q-learning."""
