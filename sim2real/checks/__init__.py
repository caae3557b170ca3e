"""What preflight looks for in a log."""
