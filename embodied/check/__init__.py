"""The contract of a task as checks, of which each says in words what is wrong and where."""
