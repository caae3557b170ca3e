"""Tasks whose instruction differs between episodes, and may be ambiguous."""
