"""A search over the flags of a training: the command, its table and its page."""
